"""Rules about running processes and their variables."""

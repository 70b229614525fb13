"""Rules about what runs, and the variables it runs with."""

"""A debug log, read line by line."""

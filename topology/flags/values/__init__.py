"""What a value of a variable means to the library that reads it, and who sets it."""

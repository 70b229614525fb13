"""What is specific to AMD: amdsmi, its numbers in words, the output of its tools."""

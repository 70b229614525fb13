"""What is particular to AMD: amdsmi, its numbers in words, the outputs of its tools."""

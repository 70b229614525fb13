"""What judges, and what carries, the text that the painter sends."""

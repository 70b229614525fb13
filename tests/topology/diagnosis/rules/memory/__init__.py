"""The rules about memory."""

"""The rules about host."""

"""The rules about network."""

"""The rules about devices."""

"""The screen Cost."""

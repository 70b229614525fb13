"""The screen Node."""

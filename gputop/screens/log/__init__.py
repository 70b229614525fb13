"""The screen Log."""

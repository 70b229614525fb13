"""The screen Flags."""

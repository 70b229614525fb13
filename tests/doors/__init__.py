"""Asks every door for the same facts: commands, JSON and the app's screens."""

"""Pictures of every screen for docs/, drawn by a script: `python -m tests.pictures`."""

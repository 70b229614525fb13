"""Recordings of a live session: how they are encoded, read, played back and exported."""

AT = "@"
"""FILE@TIME is a recording at that time, where there is no file of that name."""

"""The threads behind the screens of a live session, and what they hand over."""

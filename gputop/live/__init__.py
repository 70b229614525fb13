"""What goes on behind the screens of a live session: threads, and what they hand over."""

"""The terminal itself: signals, job control, what it can show, and what must not reach it."""

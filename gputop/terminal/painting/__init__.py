"""Sends a terminal only the cells that changed.

Textual draws by writing text with escape sequences: each span with its colours and a reset, each
changed region whole. Here a picture reads that text as a terminal would, and a painter sends how it
differs from what the terminal shows. The text is the one thing on which Textual and terminals have
to agree, and it comes through a documented method of its drivers; its compositor, its strips and
the method that shows them are private, and change. Whatever the picture does not understand goes to
the terminal through Textual's own driver, and so does all that follows (`driver.py`).
"""

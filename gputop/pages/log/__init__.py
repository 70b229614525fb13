"""A debug log in sections, for `gputop log` and for the Log screen."""

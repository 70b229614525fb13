"""An example of a plugin of gputop."""

"""How gputop is installed, and what it finds on the machine."""

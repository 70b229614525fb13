"""What is known about a device, a pair or an edge, and why it is so, in plain words."""

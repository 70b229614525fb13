"""The node as data: what it is made of, how it hangs together, and where that was read."""

"""The tests under other Pythons than the one that runs the gate."""

"""`gputop check` without its output: reads the node, measures, and asks all rules."""

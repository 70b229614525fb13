"""Which pairs of nodes to measure next, and which part the results accuse."""

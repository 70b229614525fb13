"""A check from reading the node to the answers of all rules."""

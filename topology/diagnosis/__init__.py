"""What is wrong with a node: rules, their evidence and their findings."""

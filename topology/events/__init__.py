"""What happened on a node, in time order."""

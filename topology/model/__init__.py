"""Records of a node: what is known, what is not and why, and how records are merged."""

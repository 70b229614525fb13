"""Rules that compare a node with what it should be (--expect)."""

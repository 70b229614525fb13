"""Rules that hold a node against what it should be (--expect)."""

"""The screen Map: lays out a node, draws it, and moves a cursor over it."""

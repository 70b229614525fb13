"""The screen Fleet: many nodes, by findings, groups, figures, links and names."""

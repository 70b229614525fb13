"""Expectation: what a figure should be on this device and link, and why one is low.

`judge.judge` gives a verdict for each figure, `four_numbers.four_numbers` the line "data sheet ->
one way -> realistic -> measured", `patterns.patterns` reads matrices. Nothing here asks the
machine; the tables are topology/hardware/specs.toml and links.toml.
"""

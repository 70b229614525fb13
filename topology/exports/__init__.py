"""A node in the formats that other programs read: one module for each format.

A module has `write(node)`, which returns what is printed as `Written`. To add a format, add its
module and its name below; `gputop topo --format` then takes it.
"""

NAMES = (
    "matrix",
    "tree",
    "dot",
    "graphml",
    "svg",
    "nccl-xml",
    "json",
)
"""The names on the command line, in the order of its help; a dash is an underscore in the name of
the module."""

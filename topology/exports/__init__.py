"""A node in the forms that other programs read: one module a format.

A module has `write(node)`, which returns what is printed as `Written`. To add a format, add its
module and its name below; `gputop topo --format` then takes it.
"""

NAMES = (
    "matrix",
    "tree",
    "dot",
    "graphml",
    "nccl-xml",
    "json",
)
"""As the command line takes them, in the order of its help; a dash is an underscore in the
module's name."""

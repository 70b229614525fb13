"""The screens, in the order of their number keys. A module NAME.py here holds `SCREEN`, a View."""

NAMES = (
    "node",
    "map",
    "pairs",
    "probes",
    "flags",
    "findings",
    "jobs",
    "log",
)

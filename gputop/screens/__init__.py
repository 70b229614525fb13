"""The screens, in the order of their number keys. NAME/screen.py holds `SCREEN`, a View."""

NAMES = (
    "node",
    "map",
    "pairs",
    "probes",
    "flags",
    "findings",
    "jobs",
    "log",
    "cost",
)

"""The plain commands. One module a command, each with `command`, a click command."""

NAMES = (
    "snapshot",
    "topo",
    "explain",
    "flags",
    "log",
    "probe",
    "check",
)

"""The plain commands. A module each, with `command`, a click command."""

MODULES = (
    "snapshot",
    "topo",
    "explain.command",
    "flags.command",
    "log",
    "probe.command",
    "check.command",
)
NAMES = tuple(module.partition(".")[0] for module in MODULES)

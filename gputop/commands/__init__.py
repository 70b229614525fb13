"""The subcommands of gputop: one module each, whose `command` is a click command."""

SUMMARIES = {
    "snapshot": "Everything that is known of the node, as JSON.",
    "topo": "How the devices of the node are connected.",
    "explain.command": "What NCCL or RCCL will do here, and why.",
    "flags.command": "What variables are set, and what each does here.",
    "log": "What a debug log of NCCL or RCCL says.",
    "probe.command": "Measure GPUs and what connects them.",
    "check.command": "Is this node fit? Findings, and an exit code.",
    "completion": "The script that completes gputop in bash, zsh or fish.",
}
"""Module -> its line in `gputop --help`, which then imports none of them."""
MODULES = tuple(SUMMARIES)
NAMES = tuple(module.partition(".")[0] for module in MODULES)

"""Subcommands with a module of their own, whose `command` is a click command.

The others follow from the questions in gputop/answers.
"""

SUMMARIES = {
    "topo": "Show how the devices of the node are connected.",
    "snapshot": "Print all that is known about the node as JSON.",
    "replay": "Play a recording back, list what happened, export it.",
    "net.command": "Measure the network between nodes, started on each of them.",
    "fleet.command": "Judge many nodes; plan which pairs to measure next.",
    "schema": "Print the JSON Schema of a document.",
    "mcp": "Answer agents over stdin and stdout (MCP).",
    "completion": "Print the completion script of bash, zsh or fish.",
}
"""Module -> its line in `gputop --help`, which then imports none of them."""
MODULES = tuple(SUMMARIES)
_TWO_WORDS = {"net.command": "probe net"}
NAMES = tuple(_TWO_WORDS.get(module) or module.partition(".")[0] for module in MODULES)
"""The words of each on the command line."""

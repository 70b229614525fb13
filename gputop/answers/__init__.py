"""The questions that gputop answers, one file each: what is asked, the answer, its page.

A question is NAME.py with `QUESTION`, and a line here; its command, its JSON and its text follow,
and, where it is about a node, its screen in the app.
"""

QUESTIONS = {
    "check": "Check whether the node is fit; set the exit code.",
    "explain": "Predict what NCCL or RCCL does here, and why.",
    "flags": "Show which variables are set and what each does here.",
    "jobs": "Say what runs on the GPUs and who waits for whom.",
    "log": "Explain a debug log of NCCL or RCCL.",
    "probe": "Measure GPUs and their links.",
    "which": "Name the best K GPUs here and now, with lines to copy.",
    "cost": "Say what training a model costs here, layout by layout.",
    "diff": "Say what differs between two readings or nodes, and what it means.",
    "metrics": "Print the node as series for Prometheus.",
    "events": "Say what happened here: faults, link and NIC events, in time order.",
    "watch": "Print a line whenever a verdict changes.",
    "record": "Keep a live session in a file, reading by reading.",
    "rules": "List what is checked.",
    "rule": "Say of one rule what it does, why, and what proves it.",
    "about": "Say what is known of a product, a node, a variable, a code.",
    "doctor": "Say what gputop found on this machine, for a bug report.",
}
"""Module -> its line in `gputop --help`, which then imports none of them."""
NAMES = tuple(QUESTIONS)

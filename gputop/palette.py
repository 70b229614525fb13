"""What can be done, in words: the commands of the palette and the keys of the help."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from textual.app import SystemCommand

from gputop.library_words import words
from gputop.screens import NAMES

if TYPE_CHECKING:
    from gputop.app import GpuTop

COMMON_HELP = (
    (f"1 to {len(NAMES)}", f"screens: {', '.join(name.capitalize() for name in NAMES)}"),
    ("Enter  w", "why: evidence, rule, consequence, fix"),
    ("p", "probe the selected pair; where no pair is selected, all GPUs"),
    ("P", "probe although the GPUs are busy"),
    ("y", "copy the selected thing as text"),
    ("x", "export the screen (SVG) and the snapshot (JSON) to this folder"),
    ("t", "theme"),
    ("d", "demo nodes, when no GPU answers or a demo is shown"),
    ("Ctrl+P", "palette of commands"),
    ("Esc", "back; cancels a running probe"),
    ("?", "these keys"),
    ("Ctrl+Z", "back to the shell; fg continues"),
    ("q", "quit"),
)
"""Keys that work on every screen, and what they do."""


def commands(app: GpuTop) -> Iterator[SystemCommand]:
    """Commands of the palette for the screen that is shown."""
    for number, name in enumerate(NAMES, start=1):
        title = name.capitalize()
        yield SystemCommand(
            title, f"Show the screen {title} ({number})", partial(app.action_screen, name)
        )
    if app.view is not None:
        yield from app.view.commands()
    yield SystemCommand("Why", "Explain what is selected (w)", app.action_why)
    yield SystemCommand("Probe", "Measure the selected pair, else all GPUs (p)", app.action_probe)
    yield SystemCommand(
        words(app.report).say("Probe {library}"),
        words(app.report).say(
            "Run {libraries} itself on all GPUs and compare its log (n on Pairs and Log)"
        ),
        app.action_probe_nccl,
    )
    yield SystemCommand("Copy", "Copy what is selected (y)", app.action_copy)
    yield SystemCommand(
        "Export", "Write picture and snapshot to this folder (x)", app.action_export
    )
    yield SystemCommand("Theme", "Choose the colours (t)", app.action_choose_theme)
    if app.offers_demos:
        yield SystemCommand("Demo nodes", "Look at a reference node (d)", app.action_demos)
    yield SystemCommand("Keys", "Show the keys of this screen (?)", app.action_help)
    yield SystemCommand("Quit", "Give the terminal back (q)", app.action_quit)

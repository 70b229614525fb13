"""The keys that work on every screen, and the line of keys of one screen."""

from __future__ import annotations

from collections.abc import Sequence

from gputop.screens import NAMES
from gputop.widgets.key import Key, note
from gputop.widgets.status import number_key

COMMON = (
    *(
        Key(
            key,
            f"screen('{name}')",
            command=name.capitalize(),
            about=f"Show the screen {name.capitalize()}",
        )
        for place, name in enumerate(NAMES)
        if (key := number_key(place))
    ),
    note(
        f"1 to {number_key(len(NAMES) - 1) or 0}",
        f"screens: {', '.join(name.capitalize() for name in NAMES)}",
    ),
    Key(
        "w,enter",
        "why",
        "why",
        "why: evidence, rule, consequence, fix",
        written="Enter  w",
        command="Why",
        about="Explain what is selected",
    ),
    Key(
        "p",
        "probe(False)",
        "probe",
        "probe the selected pair, else all GPUs",
        command="Probe",
        about="Measure the selected pair, else all GPUs",
    ),
    Key("P", "probe(True)", help="probe although GPUs are busy", beside=True),
    Key(
        "",
        "probe_nccl(False)",
        command="Probe {library}",
        about="Run {libraries} itself on all GPUs and compare its log (n on Pairs and Log)",
    ),
    Key(
        "f",
        "what_if",
        "what if",
        "what if: try a variable or a version",
        command="What if",
        about="Try a variable or another version out, on all screens",
    ),
    Key(
        "u",
        "undo",
        help="undo it",
        beside=True,
        command="Undo the what-if",
        about="Undo the last change of a variable",
    ),
    Key(
        "y",
        "copy",
        "copy",
        "copy what is selected",
        command="Copy",
        about="Copy what is selected",
    ),
    Key(
        "Y",
        "ticket",
        help="copy a ticket in Markdown: findings, proof, what to do",
        beside=True,
        command="Copy a ticket",
        about="The findings in Markdown, with proof and fix",
    ),
    Key(
        "x",
        "export",
        help="export screen (SVG) and snapshot (JSON) to this folder",
        beside=True,
        command="Export",
        about="Write picture and snapshot to this folder",
    ),
    Key("t", "choose_theme", help="theme", command="Theme", about="Choose the colours"),
    Key(
        "d",
        "demos",
        "demos",
        "demo nodes, if no GPU answers",
        beside=True,
        command="Demo nodes",
        about="Look at a reference node",
    ),
    Key(
        "D",
        "compare",
        "another",
        "diff with another node",
        command="Diff",
        about="Hold the node against a file, a demo, or itself at another time",
    ),
    Key("H", "question('events')", help="events", beside=True),
    Key(
        "ctrl+r",
        "record",
        help="record; again: end",
        written="Ctrl+R",
        beside=True,
        command="Record",
        about="Keep what is shown in a new file in this folder; again: end it",
    ),
    Key(
        "slash,ctrl+p",
        "command_palette",
        "find",
        "find a GPU, a pair (0-5), a process, a word",
        written="/  Ctrl+P",
    ),
    Key("escape", "step_back", help="back; cancels a running probe"),
    Key(
        "question_mark",
        "help",
        "keys",
        "these keys, then the glossary",
        command="Keys",
        about="Show the keys of this screen",
    ),
    note("Ctrl+L", "redraw the screen", beside=True),
    Key(
        "q",
        "quit",
        "quit",
        "quit",
        command="Quit",
        about="Leave gputop",
    ),
    Key(
        "ctrl+z",
        "suspend_process",
        help="suspend; fg in the shell comes back",
        written="Ctrl+Z",
        beside=True,
    ),
)

REPLAY = (
    Key(
        "c",
        "replay('pause')",
        help="replay: pause, and go on",
        command="Replay: pause or go on",
        about="Stand still, or go on",
    ),
    Key("comma", "replay('step', -1)", help="a reading back and on", written=",  ."),
    Key("full_stop", "replay('step', 1)"),
    Key("less_than_sign", "replay('minute', -1)", help="a minute back and on", written="<  >"),
    Key("greater_than_sign", "replay('minute', 1)"),
    Key("minus", "replay('speed', -1)", help="play slower and faster", written="-  +"),
    Key("plus", "replay('speed', 1)"),
    Key(
        "N",
        "replay('event', 1)",
        help="the next event; B the one before",
        command="Replay: next event",
        about="Go to what was noted next",
    ),
    Key(
        "B",
        "replay('event', -1)",
        command="Replay: event before",
        about="Go to what was noted before this",
    ),
)
"""Keys of the time bar, which work where a recording is played."""

REST = ("/", "f", "w", "p", "?", "q")
"""Names of the common keys that the line has behind those that lead it."""


def key_line(own: Sequence[Key], first: Sequence[str]) -> list[tuple[Key, str]]:
    """The entries of the line of keys, each with the action of the app that a click calls.

    `own` are the keys of the screen, `first` the names of those that lead the line, be they of
    the screen or common. A common key that means something else here is left out.
    """
    here = {key.name: (key, _action_from_app(key)) for key in own if key.label}
    everywhere = {key.name: (key, key.action) for key in COMMON if key.label}
    taken = {name for key in own for name in key.key.split(",")} | set(first)
    named = {**everywhere, **here}
    return [
        *(named[name] for name in first),
        *(everywhere[name] for name in REST if not taken & {name, everywhere[name][0].key}),
    ]


def _action_from_app(key: Key) -> str:
    """The action of a screen as the app calls it."""
    _, of_app, action = key.action.rpartition("app.")
    return action if of_app else f"screen.{action}"

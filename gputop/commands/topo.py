"""`gputop topo`: exports the graph of the node in formats that other programs read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import click

from gputop.commands.examples import WithExamples
from gputop.commands.options import json_option, say_problems, source_options
from gputop.exits import USAGE, Exit
from gputop.reading import read_snapshot
from gputop.terminal.columns import fitted
from gputop.terminal.lines import warn
from gputop.terminal.output import print_document, print_lines
from gputop.terminal.size import terminal_width
from gputop.topology.exports import NAMES
from gputop.topology.exports.written import exported
from gputop.topology.hardware.strangers import remarks
from gputop.topology.node import Node
from gputop.widgets.spans import Line

_MANY = 4
_LINKS = re.compile(r"\bNV(\d+)\b")
_PARTS = re.compile(r"(\bNV\d+\b)")


@click.command("topo", cls=WithExamples)
@source_options
@json_option
@click.option(
    "--format",
    "form",
    type=click.Choice(NAMES),
    default=None,
    help="matrix (the default) is laid out like `nvidia-smi topo -m`, with AMD's GPUs alone like "
    "`rocm-smi --showtopo`; nccl-xml is the file that "
    "NCCL_TOPO_FILE takes: the one that was read, or what NCCL would detect on this node.",
)
def command(
    sources: tuple[str, ...],
    demo: str | None,
    as_json: bool,
    form: str | None,
) -> None:
    """Print how the devices of the node are connected."""
    snapshot = read_snapshot(sources, demo, wiring=True)
    say_problems(snapshot)
    if as_json and form not in (None, "json"):
        raise Exit("use --json or --format, not both", USAGE)
    written = exported(form or ("json" if as_json else "matrix"), Node(snapshot))
    for sentence in (*remarks(snapshot.machine.gpus), *written.assumptions):
        warn(sentence)
    if written.document:
        print_document(written.text)
    else:
        width = terminal_width()
        text = written.text if width is None else fitted(written.text, width)
        print_lines(inked(text.removesuffix("\n").split("\n")))


def inked(lines: Sequence[str]) -> Iterator[Line]:
    """The letters of NVLinks in the colours of the app: as many as can be, or fewer."""
    most = max((int(number) for line in lines for number in _LINKS.findall(line)), default=0)
    # Cube meshes of a few links mix them by design.
    few = most if most >= _MANY else 0
    for line in lines:
        yield tuple(
            (part, "" if not number else "good" if int(number[1]) >= few else "warn")
            for part in _PARTS.split(line)
            if part
            for number in (_LINKS.fullmatch(part),)
        )

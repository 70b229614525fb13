"""Options that several commands share, and the problems of a node that was read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from gputop.reading import LIST_DEMOS
from gputop.terminal.lines import say
from gputop.topology.model.snapshot import NodeSnapshot


def source_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --from and --demo."""
    command = click.option(
        "--from",
        "sources",
        multiple=True,
        metavar="SOURCE",
        help="Read a snapshot, nvml.json, what nvidia-smi, amd-smi, lspci, ibstat, lscpu, "
        "nccl-tests and the like print, a topology XML of NCCL or RCCL, a sysfs tree or tar, or a "
        "folder of these, instead of this machine; - reads stdin. May be repeated.",
    )(command)
    return click.option(
        "--demo",
        is_flag=False,
        flag_value=LIST_DEMOS,
        default=None,
        metavar="[SHAPE]",
        help="Use an embedded reference node; alone, list them.",
    )(command)


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --json."""
    return click.option(
        "--json", "as_json", is_flag=True, help="Print one JSON document on stdout."
    )(command)


def say_problems(snapshot: NodeSnapshot) -> None:
    """Print on stderr what could not be read; a reason of several sources appears once."""
    by_text: dict[str, list[str]] = {}
    for problem in snapshot.problems:
        by_text.setdefault(problem.text, []).append(problem.source)
    for text, names in by_text.items():
        say(f"{', '.join(names)}: {text}")

"""The variables, the GPUs and the pair that somebody names for a prediction."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

from gputop.answers.question import NodeRequest, Option
from gputop.exits import CANNOT_TELL, USAGE, Exit
from gputop.measuring.selection import PAIR, SelectionError, select
from gputop.terminal.clean import clean

if TYPE_CHECKING:
    from gputop.topology.model.machine import Machine
    from gputop.topology.nccl.prediction import Prediction

HOST = re.compile(r"[0-9]{1,4}", re.ASCII)
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,79}")
LONGEST_VALUE = 4096


SETTINGS = Option(
    "--set",
    "Predict as if this variable were set; NAME= sets it to nothing. May be repeated.",
    "NAME=VALUE",
    "settings",
)
LIBRARY = Option(
    "--nccl",
    "Library to predict: nccl-2.28.9, rccl-2.21.5, or 2.28.9 of the library for these "
    "GPUs; by default what is installed.",
    "VERSION",
    "versions",
)


class PredictingRequest(NodeRequest, frozen=True, kw_only=True):
    """A question about what NCCL or RCCL does on a node."""

    settings: Annotated[tuple[str, ...], SETTINGS] = ()
    library: Annotated[str | None, LIBRARY] = None
    gpus: Annotated[
        str | None,
        Option(
            "--gpus",
            "GPUs of the communicator: ranks (0,2 or 0-3), names (GPU0), PCI addresses, UUIDs, "
            "nvml:N or cuda:N; by default all.",
            "LIST",
            "ranks",
        ),
    ] = None


def changes_of(settings: tuple[str, ...]) -> dict[str, str | None]:
    """--set NAME=VALUE as a mapping; the last value of a name counts."""
    changes: dict[str, str | None] = {}
    for text in settings:
        name, equals, value = text.partition("=")
        if not equals or NAME.fullmatch(name) is None:
            raise Exit(f"--set {clean(text, 60)!r}: write NAME=VALUE", USAGE)
        if len(value) > LONGEST_VALUE:
            raise Exit(f"--set {name}: a value of {len(value)} characters", USAGE)
        changes[name] = value
    return changes


def selected(gpus: str | None, machine: Machine) -> tuple[str, ...] | None:
    """PCI addresses of --gpus, None without the option. A bare number is a rank."""
    if gpus is None:
        return None
    try:
        return select(gpus, machine, bare="rank")
    except SelectionError as error:
        raise Exit(str(error), USAGE if machine.gpus else CANNOT_TELL) from error


def pair_of(
    src: str | None, dst: str | None, machine: Machine, prediction: Prediction
) -> tuple[int, int] | None:
    """Ranks of the pair that the user named; None without one."""
    if src is None and dst is None:
        return None
    if dst is None and (both := PAIR.fullmatch(src or "")):
        src, dst = both.groups()
    if src is None or dst is None:
        raise Exit("a pair needs two GPUs: name both or none", USAGE)
    ranks = [rank_of(word, machine, prediction) for word in (src, dst)]
    if ranks[0] == ranks[1]:
        raise Exit("a pair needs two different GPUs", USAGE)
    return ranks[0], ranks[1]


def rank_of(word: str, machine: Machine, prediction: Prediction) -> int:
    """The rank of a GPU that the user named."""
    known = {pair.src_bus_id: pair.src for pair in prediction.pairs}
    if word.isdecimal() and int(word) in known.values():
        return int(word)
    try:
        (address,) = select(word, machine, bare="rank")
    except (SelectionError, ValueError) as error:
        raise Exit(f"{clean(word, 40)!r}: {error}", USAGE) from error
    if address not in known:
        raise Exit(f"{clean(word, 40)!r} is not in this communicator", USAGE)
    return known[address]


def missing_of(words: tuple[str, ...], nodes: int) -> tuple[tuple[int, str], ...]:
    """--missing HOST:NIC as pairs, each once."""
    found: dict[tuple[int, str], None] = {}
    for text in words:
        host, colon, nic = text.partition(":")
        if not colon or not nic or not HOST.fullmatch(host):
            raise Exit(f"--missing {clean(text, 60)!r}: write HOST:NIC, such as 3:mlx5_2", USAGE)
        found[int(host), nic] = None
    if found and nodes == 1:
        raise Exit("--missing needs --nodes: which host of how many lacks the NIC?", USAGE)
    return tuple(found)

"""The option --topology: the switches of the network, by a file or guessed from names of hosts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from gputop.exits import CANNOT_TELL, USAGE, Exit
from gputop.terminal.clean import clean
from gputop.topology.fleet.planning.fabric import SwitchFabric
from gputop.topology.fleet.planning.fabric_text import LIMIT_BYTES, fabric_from, fabric_guessed

SLURM = Path("/etc/slurm")
_GUESS = re.compile(r"names(?:/(\d{1,6}))?")


def _fabric_of_file(name: str) -> SwitchFabric:
    """A file, also one of Slurm's by its name alone. Raises OSError and ValueError."""
    path = Path(name)
    if not path.exists() and path.name == name:
        path = SLURM / name
    with path.open("rb") as file:
        data = file.read(LIMIT_BYTES + 1)
    if len(data) > LIMIT_BYTES:
        raise ValueError(f"larger than {LIMIT_BYTES >> 20} MiB")
    return fabric_from(data.decode("utf-8", "replace"), str(path))


def fabric_of_option(topology: str | None, hosts: Callable[[], Iterable[str]]) -> SwitchFabric:
    """The network as the option names it; an empty one without it. Raises Exit.

    `hosts` gives the names to guess from; it may raise ValueError.
    """
    if topology is None:
        return SwitchFabric()
    guess = _GUESS.fullmatch(topology)
    if guess is not None and guess[1] and int(guess[1]) == 0:
        raise Exit(f"--topology {topology}: a run has at least 1 node, as in names/32", USAGE)
    try:
        if guess is not None:
            return fabric_guessed(hosts(), int(guess[1]) if guess[1] else None)
        return _fabric_of_file(topology)
    except OSError as error:
        raise Exit(f"{clean(topology, 200)}: {error.strerror}", USAGE) from error
    except ValueError as error:
        raise Exit(f"--topology {clean(topology, 200)}: {error}", CANNOT_TELL) from error

"""Which library predictions follow on a node, and why, in one sentence for every place."""

from collections.abc import Iterator

from ..model.english import listing
from ..model.machine import Machine
from ..model.surroundings import Software
from ..model.versions import RunningLibrary
from .versions import asked_for, follows_rccl, preferred, running_here

MOST_NAMED = 3


def followed(machine: Machine, asked: str | None = None, own: RunningLibrary | None = None) -> str:
    """The sentence.

    `asked`: the version that the user wants, which wins; `own`: what the process that is asked
    about has loaded.
    """
    name, guess = preferred(machine)
    running = own or running_here(machine)
    if asked:
        name, why = asked_for(asked, machine), ", as asked for"
    elif running is not None:
        name = f"{running.name}-{running.version}"
        why = f", which {_users(running)} {_have(running)} loaded ({running.path})"
    elif guess is not None:
        why = f": {guess.partition(': ')[2]}"
    else:
        why = _installed(machine.software or Software(), rccl=follows_rccl(machine))
    number = name.rpartition("-")[2]
    more = "" if own else "".join(f"; {text}" for text in _others(machine, number))
    return f"predictions follow {_title(name)}{why}{more}"


def _title(name: str) -> str:
    library, _, number = name.rpartition("-")
    return f"{(library or 'nccl').upper()} {number.removeprefix('v')}"


def _users(library: RunningLibrary) -> str:
    return listing([*library.job_names, *library.programs], MOST_NAMED)


def _have(library: RunningLibrary) -> str:
    return "has" if len(library.job_names) + len(library.programs) == 1 else "have"


def _installed(software: Software, *, rccl: bool) -> str:
    """Where the one lies that a job here would load, as far as names and files tell."""
    path = "" if rccl else software.nccl_path or ""
    if not path:
        return ", which is installed here"
    if software.torch and software.torch_path and path.startswith(_folder(software.torch_path)):
        return f", which a job here would load beside torch {software.torch} ({path})"
    return f", the one of this system ({path})"


def _folder(path: str) -> str:
    return path.rpartition("/")[0] + "/"


def _others(machine: Machine, number: str) -> Iterator[str]:
    """What jobs have loaded that predictions of the node, by version `number`, do not follow."""
    told: set[str | None] = {number}
    for one in () if machine.software is None else machine.software.running:
        if one.version in told:
            continue
        told.add(one.version)
        which = "one replaced since" if one.replaced else one.version or "one of unknown version"
        own = ", which answers about it follow" if one.version else ""
        yield f"{_users(one)} {_have(one)} loaded {which} ({one.path}){own}"

"""Values that a shell offers while somebody types: demos, variables, probes, rules, GPUs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import click
from click.shell_completion import CompletionItem

from gputop.answers.known import every_known_name
from gputop.checking.runs import all_rules
from gputop.exits import Exit
from gputop.measuring.plugged import known
from gputop.measuring.selection import select
from gputop.probes import catalog
from gputop.reading import LIST_DEMOS, read_snapshot, settle
from gputop.topology.expectation.reference import names as reference_names
from gputop.topology.flags.catalogue.catalogue import catalogue
from gputop.topology.hardware.terms import terms_for
from gputop.topology.model.machine import Gpu, Machine
from gputop.topology.nccl.versions import versions as library_versions
from gputop.topology.recorded.demos import demo
from gputop.topology.sources.live import LiveFeed, load_sources
from gputop.topology.wiring.devices import devices_of

Items: TypeAlias = "list[CompletionItem[str]]"  # older releases of click do not take the [str]
QUICK = ("nvml", "amdsmi", "kfd", "pci")
"""Sources that know the GPUs of this machine."""
PATIENCE_SECONDS = 2.0
"""How long a shell waits for a driver."""
HELP = 70
"""Longest help text in characters."""


def demos(context: click.Context, typed: str) -> Items:
    """The reference nodes that --demo takes."""
    return _offered(((name, demo.title(name)) for name in demo.names()), typed)


def variables(context: click.Context, typed: str) -> Items:
    """Names of variables."""
    found = ((flag.name, flag.changes) for flag in catalogue().flags)
    return _offered(found, typed.upper())


def settings(context: click.Context, typed: str) -> Items:
    """NAME=, and behind it the values that the variable takes."""
    name, equals, value = typed.partition("=")
    if not equals:
        return _offered(((f"{flag.name}=", "") for flag in catalogue().flags), typed.upper())
    flag = catalogue().flag(name)
    options = () if flag is None else flag.options or ("0", "1") * (flag.type == "bool")
    found = ((f"{name}={option}", "") for option in options)
    return _offered(found, f"{name}={value}", case=False)


def probes(context: click.Context, typed: str) -> Items:
    """Names of probes that are not on the line yet."""
    given = context.params.get("names") or ()
    alone = () if given else tuple(catalog.BETWEEN_NODES)
    names = (name for name in (*known(), *alone) if name not in given)
    return _offered(((name, catalog.load(name).SPEC.title) for name in names), typed)


def probe_list(context: click.Context, typed: str) -> Items:
    """Names of probes with commas between them, each once."""
    before, comma, _ = typed.rpartition(",")
    names = (name for name in known() if name not in before.split(","))
    found = ((f"{before}{comma}{name}", catalog.load(name).SPEC.title) for name in names)
    return _offered(found, typed)


def rules(context: click.Context, typed: str) -> Items:
    """Ids of rules."""
    words = terms_for(None)
    return _offered(((rule.id, words.fill(rule.title)) for rule in all_rules()), typed)


def known_names(context: click.Context, typed: str) -> Items:
    """Names that `about` knows."""
    return _offered(((name, "") for name in every_known_name()), typed, case=False)


def references(context: click.Context, typed: str) -> Items:
    """Reference nodes; a path where none of them begins so."""
    names = dict.fromkeys((*demo.names(), *reference_names()))
    found = _offered(((name, "") for name in names), typed.lower())
    return found or files(context, typed)


def versions(context: click.Context, typed: str) -> Items:
    """Versions of NCCL and RCCL whose rules are known."""
    known = library_versions()
    names = [f"{version.library}-{version.number}" for version in known]
    bare = [version.number for version in known if version.library == "nccl"]
    return _offered(((name, "") for name in (names if typed[:1].isalpha() else bare)), typed)


def files(context: click.Context, typed: str) -> Items:
    """Paths, which the shell itself completes."""
    return [CompletionItem(typed, type="file")]


def gpus(context: click.Context, typed: str) -> Items:
    """A list of GPUs by the driver's index, or by PCI address once a colon is typed."""
    return _gpus(context, typed, "index")


def ranks(context: click.Context, typed: str) -> Items:
    """A list of GPUs by rank, or by PCI address once a colon is typed."""
    return _gpus(context, typed, "rank")


def _gpus(context: click.Context, typed: str, bare: str) -> Items:
    before, comma, last = typed.rpartition(",")
    machine = _machine(context)
    known = devices_of(machine).gpus
    found = []
    for address, number in _numbered(machine, bare):
        gpu = known[address]
        text = address if ":" in last else str(number)
        if text not in before.split(","):
            found.append((f"{before}{comma}{text}", _what(gpu)))
    return _offered(found, typed)


def _numbered(machine: Machine, bare: str) -> Iterable[tuple[str, int]]:
    if bare == "index":
        return [(gpu.address, gpu.number) for gpu in machine.gpus if gpu.number is not None]
    found = []
    for number in range(len(machine.gpus)):
        try:
            (address,) = select(str(number), machine, bare=bare)
        except ValueError:
            continue
        found.append((address, number))
    return found


def _what(gpu: Gpu) -> str:
    return " ".join(part for part in (gpu.name, gpu.address) if part)


def _machine(context: click.Context) -> Machine:
    """The node that the line names so far, else this machine."""
    demo_name, sources = context.params.get("demo"), context.params.get("sources") or ()
    try:
        if demo_name == LIST_DEMOS:
            return Machine()
        if demo_name or sources:
            return read_snapshot(tuple(sources), demo_name).machine
    except (Exit, click.exceptions.Exit):
        return Machine()
    return settle(LiveFeed(load_sources(QUICK), thorough=True), PATIENCE_SECONDS).machine


def _offered(found: Iterable[tuple[str, str]], typed: str, *, case: bool = True) -> Items:
    """Those that begin as typed, each with one short line of help."""
    start = typed if case else typed.lower()
    return [
        CompletionItem(value, help=_short(text) or None)
        for value, text in found
        if (value if case else value.lower()).startswith(start)
    ]


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= HELP else line[: HELP - 1].rstrip() + "…"

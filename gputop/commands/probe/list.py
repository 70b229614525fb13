"""`gputop probe --list`: lists the probes and their cost on this machine."""

from __future__ import annotations

import click
import msgspec

from gputop import __version__
from gputop.commands.probe.node import chosen
from gputop.commands.probe.table import table
from gputop.measuring.planning import in_order
from gputop.probes import catalog
from gputop.probes.protocol.spec import LEVELS, ProbeSpec
from gputop.reading import settle
from gputop.terminal.lines import print_json
from gputop.topology.model import units
from gputop.topology.sources.live import LiveFeed, load_sources

ELSEWHERE = (2, 4, 8)
"""The numbers of GPUs to estimate for on a machine without a GPU."""
_LONGEST_TITLE = 30


def print_list(names: tuple[str, ...], gpus: str | None, *, as_json: bool) -> None:
    """Print the probes with their cost on the GPUs of this machine, else on 2, 4 and 8.

    `source` in the document is ["live"] when the estimates are for this machine.
    """
    specs: list[ProbeSpec] = [catalog.load(name).SPEC for name in in_order(names or catalog.NAMES)]
    found = _found(gpus)
    counts = (found,) if found else ELSEWHERE
    if as_json:
        print_json(
            {
                "schema": "gputop.probes/1",
                "gputop": __version__,
                "source": ["live"] if found else [],
                "assumptions": [],
                "probes": [_described(spec) for spec in specs],
                "estimates": [_estimate(spec, count) for spec in specs for count in counts],
            }
        )
        return
    for count in counts:
        click.echo(f"{_heading(count)}\n{_table(specs, count)}\n")
    click.echo(
        "Seconds include the start of torch, which probes in one run pay once. Memory is\n"
        "what is wanted on each GPU; less is used where less is free."
    )


def _described(spec: ProbeSpec) -> dict[str, object]:
    """What a probe costs and needs. Its quantities appear in the answer of a run."""
    described: dict[str, object] = msgspec.to_builtins(spec)
    del described["quantities"]
    return described


def _found(gpus: str | None) -> int:
    """The number of GPUs on this machine that would be measured."""
    sources = load_sources(("nvml", "amdsmi", "kfd", "pci", "environment"))
    snapshot = settle(LiveFeed(sources, thorough=True))
    return len(chosen(gpus, snapshot)) if snapshot.machine.gpus or gpus else 0


def _estimate(spec: ProbeSpec, count: int) -> dict[str, object]:
    seconds = {level: round(spec.estimate_seconds(count, level), 1) for level in LEVELS}
    return {"name": spec.name, "gpus": count, "seconds": seconds}


def _heading(count: int) -> str:
    return f"on {count} GPU{'s' * (count != 1)}, seconds:"


def _table(specs: list[ProbeSpec], count: int) -> str:
    rows = []
    for spec in specs:
        needs = str(spec.minimum_gpus)
        fits = count >= spec.minimum_gpus
        seconds = [
            f"{spec.estimate_seconds(count, level):.0f}" if fits else units.UNKNOWN
            for level in LEVELS
        ]
        memory = units.size(spec.memory_bytes_per_gpu)
        rows.append([f"{spec.name:<15}{spec.title[:_LONGEST_TITLE]}", needs, memory, *seconds])
    rows.append(["all of them", "", "", *_sums(specs, count)])
    return table(["GPUs", "memory", *LEVELS], rows, corner="name           what")


def _sums(specs: list[ProbeSpec], count: int) -> list[str]:
    """Seconds for all probes; those that share a worker start torch once."""
    sums = []
    for level in LEVELS:
        total = 0.0
        started: set[bool] = set()
        for spec in specs:
            if count < spec.minimum_gpus:
                continue
            fresh = spec.needs_torch not in started
            started.add(spec.needs_torch)
            total += (
                spec.estimate_seconds(count, level)
                if fresh
                else spec.measuring_seconds(count, level)
            )
        sums.append(f"{total:.0f}")
    return sums

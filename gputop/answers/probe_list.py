"""Which probes there are, and what each costs on this machine: `gputop probe --list`."""

from __future__ import annotations

from typing import Any

import msgspec

from gputop.answers.figures import WIDTH, apart, table
from gputop.answers.measured import chosen
from gputop.answers.question import Answer, Question, Request
from gputop.measuring.planning import in_order
from gputop.probes import catalog
from gputop.probes.protocol.spec import LEVELS, ProbeSpec
from gputop.reading import settle
from gputop.topology.model import units
from gputop.topology.model.english import plural
from gputop.topology.model.page import Page, Text
from gputop.topology.sources.live import LiveFeed, load_sources

ELSEWHERE = (2, 4, 8)
"""The numbers of GPUs to estimate for on a machine without a GPU."""
_LONGEST_TITLE = 30
_NOTE = (
    "Seconds include the start of torch, which probes in one run pay once. Memory is what is "
    "wanted on each GPU; less is used where less is free."
)


class ListRequest(Request, frozen=True, kw_only=True):
    """List the probes."""

    names: tuple[str, ...] = ()
    gpus: str | None = None


class ListAnswer(Answer, frozen=True, kw_only=True, tag="gputop.probes/1"):
    """The probes with their cost. `source` is live where the estimates are for this machine."""

    hidden = ("specs", "counts")
    probes: tuple[dict[str, Any], ...]
    """What each costs and needs; its quantities appear in the answer of a run."""
    estimates: tuple[dict[str, Any], ...]
    specs: tuple[ProbeSpec, ...]
    counts: tuple[int, ...]


def answer(asked: ListRequest) -> ListAnswer:
    """The cost on the GPUs of this machine, else on 2, 4 and 8."""
    specs = tuple(catalog.load(name).SPEC for name in in_order(asked.names or catalog.NAMES))
    found = _found(asked.gpus)
    counts = (found,) if found else ELSEWHERE
    described = [msgspec.to_builtins(spec) for spec in specs]
    return ListAnswer(
        source=("live",) if found else (),
        probes=tuple(
            {name: value for name, value in each.items() if name != "quantities"}
            for each in described
        ),
        estimates=tuple(_estimate(spec, count) for spec in specs for count in counts),
        specs=specs,
        counts=counts,
    )


def _found(gpus: str | None) -> int:
    """The number of GPUs on this machine that would be measured."""
    sources = load_sources(("nvml", "amdsmi", "kfd", "pci", "environment"))
    snapshot = settle(LiveFeed(sources, thorough=True))
    return len(chosen(gpus, snapshot)) if snapshot.machine.gpus or gpus else 0


def _estimate(spec: ProbeSpec, count: int) -> dict[str, object]:
    seconds = {level: round(spec.estimate_seconds(count, level), 1) for level in LEVELS}
    return {"name": spec.name, "gpus": count, "seconds": seconds}


def page(found: ListAnswer) -> Page:
    """A table for each number of GPUs."""
    heads = ("GPUs", "memory", *LEVELS)
    groups = [
        (
            Text(f"on {plural(count, 'GPU')}, seconds:"),
            table(heads, _rows(found.specs, count), "name           what"),
        )
        for count in found.counts
    ]
    return Page(title="probes", blocks=apart([*groups, (Text(_NOTE, hanging=0),)]))


def _rows(specs: tuple[ProbeSpec, ...], count: int) -> list[list[str]]:
    rows = []
    for spec in specs:
        fits = count >= spec.minimum_gpus
        seconds = [
            f"{spec.estimate_seconds(count, level):.0f}" if fits else units.UNKNOWN
            for level in LEVELS
        ]
        name = f"{spec.name:<15}{spec.title[:_LONGEST_TITLE]}"
        memory = units.size(spec.memory_bytes_per_gpu)
        rows.append([name, str(spec.minimum_gpus), memory, *seconds])
    sums = [f"{_sum(specs, count, level):.0f}" for level in LEVELS]
    return [*rows, ["all of them", "", "", *sums]]


def _sum(specs: tuple[ProbeSpec, ...], count: int, level: str) -> float:
    """Seconds for all probes; those that share a worker start torch once."""
    able = [spec for spec in specs if count >= spec.minimum_gpus]
    started = {spec.needs_torch: spec.start_seconds for spec in reversed(able)}
    return sum(started.values()) + sum(spec.measuring_seconds(count, level) for spec in able)


LISTED = Question(name="list", request=ListRequest, answer=answer, page=page, width=lambda: WIDTH)

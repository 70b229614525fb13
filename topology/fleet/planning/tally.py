"""What the judged looks at pairs say of each host: who was measured with whom, and what was bad."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from .fabric import SwitchFabric
from .judging import JudgedLook, Judgements
from .looks import ABSENT

UNFINISHED = -1
"""Stands for a rail where a pair did not come to its end."""
TOGETHER = -2
"""Stands for a rail where all rails at once are low and none alone is."""


@dataclass(frozen=True, slots=True)
class BadLook:
    """One rail of one look that was bad."""

    number: int
    """The look's place among all."""
    hosts: tuple[str, str]
    rail: int
    """A rail, UNFINISHED or TOGETHER."""
    blamed: tuple[str, ...]
    """The hosts that it may accuse: both, or those that did not come."""
    senders: frozenset[str | None]
    """Who sent what was bad; None where a figure has no direction."""
    gbs: float | None
    """The lowest figure."""

    @property
    def fails(self) -> bool:
        """Whether it did not finish, or data arrived wrong: such a figure counts as 0."""
        return not self.gbs

    def partner(self, host: str) -> str:
        """The other host."""
        return self.hosts[1] if host == self.hosts[0] else self.hosts[0]


@dataclass(frozen=True, slots=True)
class Tally:
    """All looks at pairs, by host."""

    looks: tuple[JudgedLook, ...]
    """In the order in which they were taken."""
    events: tuple[BadLook, ...]
    rails: frozenset[int]
    """Every rail that was measured."""
    measured: frozenset[str]
    """Hosts of at least one look that finished and was judged."""
    partners: Mapping[str, frozenset[str]]
    """Host -> everybody with whom it was looked at."""
    by_host: Mapping[str, tuple[int, ...]]
    """Host -> the places of its looks."""

    def covers(self, number: int, rail: int) -> bool:
        """Whether a look says something about a rail."""
        judged = self.looks[number]
        if rail == UNFINISHED:
            return True
        return (None if rail == TOGETHER else rail) in judged.rails

    def groups(self, fabric: SwitchFabric) -> tuple[dict[str, set[str]], dict[str, set[int]]]:
        """Switch -> hosts below it with a look across its border; and the looks inside it."""
        chains = {host: tuple(fabric.above(host)) for host in self.by_host}
        across: dict[str, set[str]] = {}
        inside: dict[str, set[int]] = {}
        for number, judged in enumerate(self.looks):
            first, second = judged.look.hosts
            one, other = chains[first], chains[second]
            for host, own, others in ((first, one, other), (second, other, one)):
                for switch in own:
                    if switch not in others:
                        across.setdefault(switch, set()).add(host)
            for switch in one:
                if switch in other:
                    inside.setdefault(switch, set()).add(number)
        return across, inside


def tally(judgements: Judgements) -> Tally:
    """Count the looks at pairs."""
    pairs = [judged for judged in judgements.looks if len(judged.look.hosts) == 2]
    pairs.sort(key=lambda judged: (judged.look.round or 0, judged.look.taken_at or 0.0))
    partners: dict[str, set[str]] = {}
    by_host: dict[str, list[int]] = {}
    rails: set[int] = set()
    measured: set[str] = set()
    for number, judged in enumerate(pairs):
        first, second = judged.look.hosts
        for host, other in ((first, second), (second, first)):
            partners.setdefault(host, set()).add(other)
            by_host.setdefault(host, []).append(number)
        if judged.rails:
            measured.update((first, second))
            rails.update(rail for rail in judged.rails if rail is not None)
    return Tally(
        looks=tuple(pairs),
        events=tuple(_events(pairs)),
        rails=frozenset(rails),
        measured=frozenset(measured),
        partners={host: frozenset(others) for host, others in partners.items()},
        by_host={host: tuple(numbers) for host, numbers in by_host.items()},
    )


def _events(pairs: Iterable[JudgedLook]) -> Iterator[BadLook]:
    for number, judged in enumerate(pairs):
        look = judged.look
        hosts = (look.hosts[0], look.hosts[1])
        if not look.finished:
            blamed = look.missing if look.status == ABSENT and look.missing else hosts
            yield BadLook(number, hosts, UNFINISHED, blamed, frozenset(), None)
            continue
        for rail in {flow.rail for flow in judged.bad}:
            flows = [flow for flow in judged.bad if flow.rail == rail]
            yield BadLook(
                number,
                hosts,
                TOGETHER if rail is None else rail,
                hosts,
                frozenset(flow.source for flow in flows),
                min(flow.gbs or 0.0 for flow in flows),
            )

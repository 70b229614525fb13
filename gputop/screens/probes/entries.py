"""The entries of the list of probes: cost, state and last result of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from gputop.measuring.quantities import headline_place, shows_broken, specs
from gputop.probes.protocol.status import Status
from gputop.screens.probes.groups import Group, GroupMember, groups
from gputop.simulating.probes import NAMES
from gputop.terminal.clean import clean
from gputop.topology.model.gathered import gathered_by
from gputop.topology.model.page import SIMULATED
from gputop.topology.model.severity import FigureVerdict
from gputop.widgets.meters import verdict_of

if TYPE_CHECKING:
    from gputop.measuring.judged import Judged
    from gputop.measuring.state import ProbeRun, SuiteState
    from gputop.probes.protocol.spec import ProbeSpec
    from gputop.topology.expectation.judgement import Judgement
    from gputop.topology.model.snapshot import Measurement

STATES = {
    None: ("·", "muted"),
    Status.WAITING: ("…", "muted"),
    Status.RUNNING: ("▶", "good"),
    Status.FINISHED: ("✓", "good"),
    Status.SKIPPED: ("–", "muted"),
    Status.CANCELLED: ("■", "warn"),
}
"""State of a run, None without one -> sign and ink; any other state is an unwanted end."""


class ProbeEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One probe in the list."""

    name: str
    title: str = ""
    measures: str = ""
    method: str = ""
    seconds: float | None = None
    """Estimated time; None for a probe that this version does not know."""
    memory_bytes: int = 0
    """Memory that it needs on every GPU."""
    minimum_gpus: int = 0
    run: ProbeRun | None = None
    """Its last run in this session."""
    notes: tuple[str, ...] = ()
    """Lines of the notes of its last run."""
    groups: tuple[Group, ...] = ()
    absent: bool = False
    """Whether the node is a demo, on which this probe is not simulated."""

    @property
    def status(self) -> Status | None:
        """The state of its last run; None without one."""
        return None if self.run is None else self.run.status

    @property
    def text(self) -> str:
        """Why it ended that way."""
        return "" if self.run is None else clean(self.run.text, 400)

    @property
    def what(self) -> str:
        """What is measured right now."""
        return "" if self.run is None else clean(self.run.what, 200)

    @property
    def broken(self) -> bool:
        """Whether a probe's own verdict on some figure is that data arrives wrong."""
        return any(shows_broken(member.figure) for member in self._members)

    @property
    def low(self) -> bool:
        """Whether some figure is low."""
        return any(member.verdict == FigureVerdict.LOW for member in self._members)

    @property
    def compared(self) -> bool:
        """Whether some figure has a reference."""
        return any(member.verdict != FigureVerdict.NO_REFERENCE for member in self._members)

    @property
    def _members(self) -> tuple[GroupMember, ...]:
        return tuple(member for group in self.groups for member in group.members)

    @property
    def judgements(self) -> tuple[Judgement, ...]:
        """Those of its figures that were judged."""
        made = (member.judgement for member in self._members)
        return tuple(judgement for judgement in made if judgement is not None)

    @property
    def mark(self) -> tuple[str, str]:
        """Sign and ink of what its figures show, where they are sick, else of the state."""
        if self.status in (None, Status.FINISHED) and (self.broken or self.low):
            return ("✗", "bad") if self.broken else (self.verdict[0], self.verdict[2])
        return self.state_mark

    @property
    def state_mark(self) -> tuple[str, str]:
        """Sign and ink of the state."""
        status = self.status or (Status.FINISHED if self.groups else None)
        if self.absent and status is None:
            status = Status.SKIPPED
        return STATES.get(status, ("✗", "bad"))

    @property
    def word(self) -> str:
        """The state in a word."""
        run = self.run
        if run is not None and run.status == Status.RUNNING and run.total:
            return f"{run.done}/{run.total}"
        if self.simulated and self.status in (None, Status.FINISHED):
            return SIMULATED
        if self.absent:
            return ""  # where its result would stand is why
        if run is None:
            return "measured" if self.groups else "not run"
        return run.status.replace("-", " ")

    @property
    def simulated(self) -> bool:
        """Whether its figures are those of a demo, which nobody measured."""
        return any(group.members[0].figure.simulated for group in self.groups)

    @property
    def headline(self) -> Group | None:
        """The group that represents the probe: a low one, else the headline."""
        numeric = [group for group in self.groups if group.numbers]
        numeric.sort(key=lambda group: headline_place(group.quantity.key, self.name))
        low = [group for group in numeric if group.bad]
        return next(iter([*low, *numeric, *self.groups]), None)

    @property
    def verdict(self) -> tuple[str, str, str]:
        """Sign, word and ink of the worst verdict among the figures."""
        gravest = min(
            self.judgements,
            key=lambda judged: (FigureVerdict(judged.verdict).order, judged.explained),
            default=None,
        )
        return verdict_of(gravest)


def entries(
    figures: Sequence[Measurement],
    judged: Judged,
    names: Mapping[str, str],
    gpus: int,
    level: str,
    suite: SuiteState | None,
    notes: Mapping[str, tuple[str, ...]],
    demo: bool = False,
) -> tuple[ProbeEntry, ...]:
    """An entry for each probe of this version, then for each other one with figures.

    `names`: address of a device -> its label. `gpus`: how many there are. `notes`: lines of the
    notes of each probe's last run.
    """
    by_probe = gathered_by(figures, lambda figure: figure.probe)
    known = specs()
    made = []
    for name in (*known, *(name for name in by_probe if name not in known)):
        found = tuple(groups(by_probe.get(name, ()), judged, names))
        entry = _entry(name, known.get(name), found, gpus, level, suite)
        lines = tuple(text for note in notes.get(name, ()) if (text := clean(note, 500).strip()))
        absent = demo and name not in NAMES
        made.append(msgspec.structs.replace(entry, notes=lines, absent=absent))
    return tuple(made)


def _entry(
    name: str,
    spec: ProbeSpec | None,
    found: tuple[Group, ...],
    gpus: int,
    level: str,
    suite: SuiteState | None,
) -> ProbeEntry:
    cost = (
        {}
        if spec is None
        else {
            "title": spec.title,
            "measures": spec.measures,
            "method": spec.method,
            "seconds": spec.estimate_seconds(max(gpus, spec.minimum_gpus), level),
            "memory_bytes": spec.memory_bytes_per_gpu,
            "minimum_gpus": spec.minimum_gpus,
        }
    )
    step = None if suite is None else suite.step(name)
    return ProbeEntry(name=name, groups=found, run=step, **cost)  # type: ignore[arg-type]

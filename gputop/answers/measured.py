"""The answer of a run of probes: its JSON, its exit code and its page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, TypedDict

import msgspec

from gputop import __version__
from gputop.answers.figure_words import nccl_lines
from gputop.answers.figures import WIDTH, apart, blocks_of
from gputop.answers.question import Answer
from gputop.exits import ANSWERED, CANNOT_TELL, FAILURES, INTERRUPTED, USAGE, WARNINGS, Exit
from gputop.measuring.expected import Expectations, ReferenceEntry, as_json
from gputop.measuring.judged import low_probes, nothing_low
from gputop.measuring.nccl_check import NcclCheck
from gputop.measuring.quantities import shows_broken
from gputop.measuring.selection import SelectionError, measurable, select
from gputop.measuring.state import ProbeRun, SuiteState
from gputop.probes.protocol.status import ProbeLevel, Status
from gputop.reading import settle
from gputop.terminal.clean import clean
from gputop.topology.expectation.judgement import Judgement
from gputop.topology.model import units
from gputop.topology.model.english import listing, plural
from gputop.topology.model.page import Block, Page, Role, Text
from gputop.topology.model.severity import FigureVerdict, Verdict
from gputop.topology.model.snapshot import Measurement, NodeSnapshot
from gputop.topology.sources.live import LiveFeed

LIVE = ("live",)
EXIT_CODES = {
    Status.FINISHED: ANSWERED,
    Status.SKIPPED: ANSWERED,
    Status.TIMED_OUT: FAILURES,
    Status.CANCELLED: INTERRUPTED,
}
"""How a probe ended -> exit code; every other end leaves the question open."""
_GRAVITY = (ANSWERED, WARNINGS, CANNOT_TELL, FAILURES, INTERRUPTED)


class JudgedMeasurement(Measurement, frozen=True, kw_only=True):
    """A figure with what it is held against."""

    expected: ReferenceEntry | None
    """None where nothing was judged."""


class ProbeNote(TypedDict):
    """A remark of a probe that is no figure."""

    topic: str
    """A key of the probe's own choice."""
    text: str
    details: dict[str, Any]


class RankLog(TypedDict):
    """The device of a rank, and how much it logged."""

    rank: int
    device: str | None
    uuid: str | None
    log_lines: int
    log_bytes_left_out: int


class ProbeCost(TypedDict):
    """How long a probe takes on so many GPUs, by its level."""

    name: str
    gpus: int
    seconds: dict[str, float]


class ListedProbe(TypedDict):
    """A probe: what it measures, what it needs and what it costs."""

    name: str
    title: str
    measures: str
    method: str
    minimum_gpus: int
    memory_bytes_per_gpu: int
    start_seconds: float
    seconds_per_gpu: float
    seconds_per_pair: float
    seconds_alone: float
    level_factors: dict[str, float]
    host_memory_bytes: int
    loads: tuple[str, ...]
    needs_torch: bool
    by_library: bool
    imports: tuple[str, ...]


class MeasuredAnswer(Answer, frozen=True, kw_only=True, tag="gputop.probe/1"):
    """The answer of one probe."""

    hidden: ClassVar[tuple[str, ...]] = ("run", "known", "nccl")
    simulated: bool
    """Whether the node is a demo, where nothing is measured."""
    probe: str
    level: ProbeLevel
    gpus: tuple[str, ...]
    status: Status
    message: str
    elapsed_seconds: float
    interpreter: dict[str, str] | None
    versions: dict[str, str]
    measurements: tuple[JudgedMeasurement, ...]
    """Each with its reference as "expected", null where nothing was judged."""
    four_numbers: tuple[str, ...]
    patterns: tuple[str, ...]
    notes: tuple[ProbeNote, ...]
    ranks: tuple[RankLog, ...] | msgspec.UnsetType = msgspec.UNSET
    check: NcclCheck | msgspec.UnsetType | None = msgspec.UNSET
    run: ProbeRun
    known: Expectations
    nccl: NcclCheck | None = None

    @classmethod
    def of(
        cls,
        run: ProbeRun,
        known: Expectations | None = None,
        nccl: NcclCheck | None = None,
        source: Sequence[str] = LIVE,
    ) -> MeasuredAnswer:
        """The answer of a run; `source`: that of the node."""
        known = known or Expectations(run.measurements)
        outcome = run.outcome
        chosen = None if run.choice is None else run.choice.chosen
        simulated = tuple(source) != LIVE
        named = not simulated and chosen is not None
        ranked = bool(outcome.logs) or nccl is not None
        return cls(
            source=tuple(source),
            simulated=simulated,
            assumptions=(*run.blind, *(nccl.assumptions if nccl is not None else ())),
            probe=run.request.probe,
            level=run.request.level,
            gpus=run.request.addresses,
            status=run.status,
            message=outcome.message,
            elapsed_seconds=outcome.elapsed_seconds,
            interpreter={"path": chosen.path, "how_found": chosen.how_found}
            if named and chosen is not None
            else None,
            versions=dict(run.measurements[0].versions) if run.measurements else {},
            measurements=tuple(
                JudgedMeasurement(**msgspec.structs.asdict(figure), expected=as_json(judgement))
                for figure, judgement in known.pairs()
            ),
            four_numbers=tuple(line.text for line in known.main),
            patterns=tuple(pattern.text for pattern in known.patterns),
            notes=tuple(
                {"topic": note.topic, "text": note.text, "details": dict(note.details)}
                for note in outcome.notes
            ),
            ranks=_ranks(run) if ranked else msgspec.UNSET,
            check=nccl if ranked else msgspec.UNSET,
            run=run,
            known=known,
            nccl=nccl,
        )

    @property
    def exit_code(self) -> int:
        """2 for wrong bytes and a collective that never finishes; 1 for figures that are low."""
        code = EXIT_CODES.get(self.status, CANNOT_TELL)
        broken = any(map(shows_broken, self.run.measurements))
        if broken and self.status in (Status.FINISHED, Status.FAILED, Status.TIMED_OUT):
            return FAILURES
        return max(code, WARNINGS) if self.known.low else code

    def document(self) -> dict[str, Any]:
        """The JSON document; whether it is simulated stands beside the source."""
        found = super().document()
        first = {key: found[key] for key in ("schema", "gputop", "source", "simulated")}
        return {**first, **found}


def _ranks(run: ProbeRun) -> tuple[RankLog, ...]:
    """The device of each rank and the size of its log."""
    outcome = run.outcome
    used = () if outcome.hello is None else outcome.hello.devices
    return tuple(
        {
            "rank": rank,
            "device": used[rank].key if rank < len(used) else None,
            "uuid": used[rank].uuid if rank < len(used) else None,
            "log_lines": outcome.log_of(rank).count("\n"),
            "log_bytes_left_out": sum(p.cut_bytes for p in outcome.logs if p.rank == rank),
        }
        for rank in outcome.ranks_logged()
    )


class SuiteAnswer(Answer, frozen=True, kw_only=True, tag="gputop.probe/1"):
    """The answers of all probes of a run; that of a single one is the whole document."""

    runs: tuple[MeasuredAnswer, ...] = ()
    state: SuiteState | None = None
    """How the suite ended."""
    interrupted: bool = False

    @property
    def exit_code(self) -> int:
        """The worst exit code of the probes."""
        codes = [run.exit_code for run in self.runs]
        return worst((ANSWERED, *codes, *((INTERRUPTED,) * self.interrupted)))

    def document(self) -> dict[str, Any]:
        """The JSON document."""
        documents = [run.document() for run in self.runs]
        if len(documents) == 1:
            return documents[0]
        return {
            "schema": "gputop.probe/1",
            "gputop": self.gputop,
            "source": self.source,
            "simulated": self.source != LIVE,
            "assumptions": (),
            "runs": documents,
        }


def worst(codes: Iterable[int]) -> int:
    """The exit code of several probes: "broken" counts more than "cannot tell"."""
    return max(codes, key=_GRAVITY.index)


def live_snapshot() -> NodeSnapshot:
    """Read this machine for predictions and verdicts; raises Exit where it has no GPU."""
    snapshot = settle(LiveFeed(version=__version__, thorough=True))
    if not snapshot.machine.gpus:
        reasons = "; ".join(dict.fromkeys(problem.text for problem in snapshot.problems))
        raise Exit(f"no GPU to measure{': ' + reasons if reasons else ''}", CANNOT_TELL)
    return snapshot


def chosen(gpus: str | None, snapshot: NodeSnapshot) -> tuple[str, ...]:
    """PCI addresses of --gpus, else of all visible GPUs; raises Exit for an unknown GPU."""
    try:
        return measurable(snapshot) if gpus is None else select(gpus, snapshot.machine)
    except SelectionError as error:
        raise Exit(str(error), USAGE) from error


def page(found: SuiteAnswer) -> Page:
    """What is low and why, the figures of each probe, and a line on each of several."""
    groups = [headline(found), *(page_of(run).blocks for run in found.runs)]
    if len(found.runs) > 1 and found.state is not None:
        groups.append(summary(found.state))
    return Page(title="probe", blocks=apart(groups))


def headline(found: SuiteAnswer) -> tuple[Block, ...]:
    """How many probes are low, and why: "▼ 3 of 6 probes low: GPU3 has 16 of 18 NVLinks up"."""
    made = [run for run in found.runs if run.measurements]
    broken = [run for run in made if run.exit_code == FAILURES]
    low = [run for run in made if run.known.low]
    sick = broken or low
    if not sick:
        return _well(made, found.runs)
    said = low_probes(
        [run.probe for run in sick],
        len(made),
        (each for run in sick for each in run.known.judgements),
        broken=bool(broken),
        simulated=made[0].simulated,
    )
    mark = Verdict.BROKEN if broken else Verdict.SLOW
    return (Text.marked(mark, (f" {said}", Role.STRONG)),)


def _well(made: Sequence[MeasuredAnswer], runs: Sequence[MeasuredAnswer]) -> tuple[Block, ...]:
    judged = [run for run in made if any(map(_compared, run.known.judgements))]
    if not judged:
        return ()
    lost = [run.probe for run in runs if run.status not in (Status.FINISHED, Status.SKIPPED)]
    count = 1 if len(made) == 1 else len(judged)
    said = nothing_low(judged[0].probe, count, simulated=made[0].simulated)
    rest = f"; {listing(lost)} did not finish" if lost else ""
    mark = Verdict.CANNOT_TELL if lost else Verdict.HEALTHY
    return (Text.marked(mark, (f" {said}{rest}", Role.STRONG)),)


def _compared(each: Judgement | None) -> bool:
    return each is not None and each.verdict is not FigureVerdict.NO_REFERENCE


def page_of(found: MeasuredAnswer) -> Page:
    """Figures with their verdicts, and the comparison with NCCL's prediction."""
    names = dict(found.run.request.names)
    groups: list[Sequence[Block]] = [blocks_of(found.known, names)]
    if found.nccl is not None:
        groups.append([Text(line) for line in nccl_lines(found.nccl, names)])
    return Page(title=found.probe, blocks=apart(groups))


def summary(state: SuiteState) -> tuple[Block, ...]:
    """A line for each probe of a suite and one for the suite."""
    longest = max((len(run.name) for run in state.steps), default=0)
    lines = []
    for run in state.steps:
        seconds = units.UNKNOWN if run.elapsed_seconds is None else f"{run.elapsed_seconds:.1f} s"
        if run.status in (Status.SKIPPED, Status.REFUSED, Status.CANCELLED):
            seconds = ""
        line = f"{run.name.ljust(longest)}  {run.status:<9} {seconds:>7}"
        if run.status == Status.FINISHED:
            line += f"  {plural(run.figures, 'figure')}"
        elif run.text:
            room = WIDTH - len(line) - 2
            text = clean(run.text)
            line += "  " + (text if len(text) <= room else text[: max(room - 1, 0)] + "…")
        lines.append(line.rstrip())
    return tuple(Text(line) for line in (*lines, state.text))

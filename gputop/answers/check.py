"""What is wrong on a node, the proof, and one verdict: reads, measures, and asks every rule."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import click
import msgspec

from gputop.answers.check_output import leading, put_out
from gputop.answers.question import (
    FORCE,
    PYTHON,
    Answer,
    Clash,
    NodeRequest,
    Option,
    Question,
    gpus_option,
    problem_lines,
)
from gputop.checking.measure import Measured, ProbeEnd, ProbePlan, measure_node, probe_names
from gputop.checking.node import examined
from gputop.checking.policy import Site, site
from gputop.checking.runs import all_rules, judged
from gputop.exits import CANNOT_TELL, INTERRUPTED, OWN_ERROR, USAGE, Exit
from gputop.printing.verdicts import checks_done, compared
from gputop.terminal.output import print_document
from gputop.terminal.writing import STDOUT
from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import Diagnosis, Lack
from gputop.topology.expectation.reference import Reference
from gputop.topology.fleet.section import FleetSection, NodeOrigin
from gputop.topology.hardware.unconfirmed import sentence
from gputop.topology.model.finding import Finding
from gputop.topology.model.page import SIMULATED, Findings, Page, Role, Text
from gputop.topology.model.severity import Verdict, Word
from gputop.topology.model.snapshot import NodeSnapshot

if TYPE_CHECKING:
    from gputop.checking.deadline import Relay

READING, MEASURING, JUDGING = "reading the node", "measuring", "judging"
_RECORDED = "nothing measured: a recording is only read"


class CheckLevel(Word):
    """How much a check measures."""

    QUICK = "quick"
    DEFAULT = "default"
    FULL = "full"


class CheckRequest(NodeRequest, frozen=True, kw_only=True):
    """Check the node: what is wrong, the proof, and one verdict.

    Idle GPUs are measured for some seconds, unless --quick; those of a demo are simulated. Exit
    codes: 0 healthy, 1 slow, 2 broken, 3 cannot tell.
    """

    clashes: ClassVar[tuple[Clash, ...]] = (
        Clash(
            ("--probe",),
            ("--quick", "--full"),
            "--probe says what is measured: leave out --quick and --full",
        ),
        Clash(
            ("--from",),
            ("--full", "--force", "--python", "--probe"),
            "a recording is not measured: leave out what needs this machine",
        ),
        Clash(
            ("--quick",),
            ("--force", "--python"),
            "--quick does not measure: leave out --force and --python",
        ),
        Clash(
            ("--snapshot",),
            ("--json", "--output"),
            "--snapshot is about the JSON: add --json or -o",
            needed=True,
        ),
        Clash(
            ("--redact",),
            ("--json", "--output", "--html", "--markdown"),
            "--redact is about files and JSON: add --json, -o, --html or --markdown",
            needed=True,
        ),
    )
    listing: Annotated[bool, Option("--list", "List the checks and exit.")] = False
    quick: Annotated[
        bool,
        Option(
            "--quick",
            "Only read: puts no load on the GPUs and takes under a second.",
            conflicts=("--full",),
        ),
    ] = False
    full: Annotated[bool, Option("--full", "Measure everything at every size; takes minutes.")] = (
        False
    )
    probe: Annotated[
        str | None,
        Option(
            "--probe", "Measure with these probes only, such as p2p,gemm.", "NAMES", "probe_list"
        ),
    ] = None
    gpus: Annotated[str | None, gpus_option("Check")] = None
    jobs: Annotated[
        bool,
        Option("--jobs", "Say of each job on the GPUs where it stands, as `gputop jobs` does."),
    ] = False
    force: Annotated[bool, FORCE] = False
    python: Annotated[str | None, PYTHON] = None
    expect: Annotated[
        str | None,
        Option(
            "--expect",
            "Compare with a reference node (dgx-h100, aws-p5.48xlarge, ...) or with the snapshot "
            "of a healthy node.",
            "SHAPE",
            "references",
        ),
    ] = None
    since: Annotated[
        str | None,
        Option(
            "--since",
            "Earlier snapshot: report how much error counters have grown since then.",
            "FILE",
            "files",
        ),
    ] = None
    ignored: Annotated[
        tuple[str, ...],
        Option(
            "--ignore",
            "Silence a check; it stays listed, as silenced. May be repeated.",
            "ID[=REASON]",
            "rules",
        ),
    ] = ()
    config: Annotated[
        str | None,
        Option(
            "--config",
            "Policy file; by default /etc/gputop/check.toml and check.toml in your configuration "
            "folder.",
            "FILE",
            "files",
        ),
    ] = None
    junit: Annotated[
        str | None,
        Option("--junit", "Also write a JUnit file, one test case per check.", "FILE", "files"),
    ] = None
    html: Annotated[
        str | None,
        Option(
            "--html",
            "Also write a page for a browser: verdict, proof, what to do, the map.",
            "FILE",
            "files",
        ),
    ] = None
    markdown: Annotated[
        str | None,
        Option("--markdown", "Also write the same as a ticket in Markdown.", "FILE", "files"),
    ] = None
    output: Annotated[
        str | None,
        Option(
            "--output",
            "Write the JSON to FILE, packed if it ends in .gz; %n is the node, %j the job. Its "
            "last folder is created.",
            "FILE",
            "files",
            short="-o",
        ),
    ] = None
    with_snapshot: Annotated[bool, Option("--snapshot", "Put the snapshot in the JSON too.")] = (
        False
    )
    redact: Annotated[
        bool,
        Option(
            "--redact",
            "Replace names in the JSON and the reports, the same way in all files of a fleet.",
        ),
    ] = False
    deadline: Annotated[
        float | None,
        Option(
            "--deadline",
            "Answer within this time, whatever hangs.",
            "SECONDS",
            least=2,
            most=86400,
        ),
    ] = None
    verbose: Annotated[
        bool, Option("--verbose", "Show evidence, impact and what to do.", short="-v")
    ] = False

    @property
    def recorded(self) -> bool:
        """Whether a recording is examined, which nothing can measure."""
        return bool(self.sources or self.demo)

    @property
    def mode(self) -> CheckLevel:
        """How much is measured."""
        if self.quick or self.sources:
            return CheckLevel.QUICK
        return CheckLevel.FULL if self.full else CheckLevel.DEFAULT

    def decided(self) -> Site:
        """What the site and the command line decide. Raises Exit for wrong usage."""
        if self.probe is not None:
            probe_names(self.probe)
        if self.expect == "":
            # An empty value is often an unset variable of a script; it must not expect nothing.
            raise Exit("--expect needs a name", USAGE)
        return site(None if self.config is None else Path(self.config), self.ignored, all_rules())


class SilencedFinding(Finding, frozen=True, kw_only=True):
    """A finding that the user or the site has silenced, with the reason."""

    reason: str


class RuleCounts(msgspec.Struct, frozen=True):
    """How many rules were asked."""

    examined: int
    not_examined: int
    of_other_vendors: int


class CheckAnswer(Answer, frozen=True, kw_only=True, tag="gputop.check/1"):
    """The verdict on a node, and what it is made of."""

    hidden: ClassVar[tuple[str, ...]] = ("snapshot", "diagnosis", "verbose")
    node: str | None
    """Its host name."""
    taken_at: float
    mode: CheckLevel
    """The level that was carried out, not the requested one."""
    expect: str | None = None
    expect_unconfirmed: tuple[str, ...] = ()
    """What no source confirms about that reference node, in words."""
    policy: tuple[str, ...] = ()
    """Policy files that were read."""
    gpus: tuple[str, ...] = ()
    """PCI addresses of the examined GPUs."""
    measured: tuple[ProbeEnd, ...] = ()
    """The probes that ran, and how each ended."""
    verdict: Verdict
    exit_code: int
    findings: tuple[Finding, ...]
    silenced: tuple[SilencedFinding, ...]
    examined: tuple[str, ...]
    """Ids of the rules that had their evidence."""
    not_examined: tuple[str, ...]
    counts: RuleCounts
    evidence_missing: tuple[Lack, ...]
    elapsed_seconds: float = 0.0
    fleet: FleetSection | None = None
    """What a fleet compares; None where nobody asked for it."""
    snapshot: NodeSnapshot
    diagnosis: Diagnosis
    verbose: bool = False

    @classmethod
    def of(cls, diagnosis: Diagnosis, node: NodeSnapshot, **rest: Any) -> CheckAnswer:
        """The answer that a diagnosis gives; `rest`: the fields that do not follow from it."""
        host = node.machine.host
        rest.setdefault("exit_code", diagnosis.verdict.exit_code)
        return cls(
            source=node.source,
            node=None if host is None else host.hostname,
            taken_at=node.taken_at,
            verdict=diagnosis.verdict,
            findings=tuple(map(_plain, diagnosis.findings)),
            silenced=tuple(
                SilencedFinding(
                    **msgspec.structs.asdict(_plain(silenced.finding)), reason=silenced.reason
                )
                for silenced in diagnosis.silenced
            ),
            examined=diagnosis.examined,
            not_examined=(*diagnosis.unexamined, *diagnosis.elsewhere),
            counts=RuleCounts(
                len(diagnosis.examined), len(diagnosis.unexamined), len(diagnosis.elsewhere)
            ),
            evidence_missing=diagnosis.lacking,
            snapshot=node,
            diagnosis=diagnosis,
            **rest,
        )

    @property
    def remarks(self) -> tuple[str, ...]:
        """What could not be read, and what was assumed or left out."""
        return (*problem_lines(self.snapshot), *(f"note: {note}" for note in self.assumptions))

    @property
    def probes(self) -> tuple[str, ...]:
        """Probes that returned figures."""
        return tuple(end.probe for end in self.measured if end.figures)

    @property
    def verdict_line(self) -> str:
        """The verdict with the ids behind it, and how much was examined."""
        loud = dict.fromkeys(finding.id for finding in self.findings if finding.severity.counts)
        what = checks_done(self.diagnosis, " (data unavailable)")
        what += f", measured {', '.join(self.probes)}" if self.probes else ", nothing measured"
        what += f", figures {SIMULATED}" if self.snapshot.simulated else ""
        return f"{self.verdict.sign} {self.verdict}{': ' * bool(loud)}{', '.join(loud)}; {what}"


def _plain(finding: Finding) -> Finding:
    """A finding without what title and consequence say in words."""
    return msgspec.structs.replace(finding, brief="", cost="")


def answer(asked: CheckRequest) -> CheckAnswer:
    """Examine the node. Raises Exit."""
    return _examine(asked, asked.decided())


def _examine(
    asked: CheckRequest,
    decided: Site,
    until: float | None = None,
    begin: Callable[[str], None] = lambda text: None,
) -> CheckAnswer:
    """`until`: when measuring is to be over, by the monotonic clock; `begin` hears each stage."""
    started = time.monotonic()
    begin(READING)
    found = examined(
        asked.sources,
        asked.demo,
        asked.since,
        until,
        given=asked.given,
        gpus=asked.gpus,
        # A demo is not a node of the site.
        expect=asked.expect or ("" if asked.demo else decided.expect),
        jobs=asked.jobs and not asked.sources,  # a recording tells of its jobs itself
    )
    snapshot, measured = found.node, None
    if asked.mode is not CheckLevel.QUICK and snapshot.machine.gpus:
        begin(MEASURING)
        how = ProbePlan(asked.full, asked.force, asked.python, probe_names(asked.probe), until)
        snapshot, measured = measure_node(snapshot, found.gpus, how, begin)
    begin(JUDGING)
    case, diagnosis = judged(found, snapshot, measured, decided.policy)
    measured, against = measured or Measured(), found.reference
    only_read = (_RECORDED,) if asked.sources and not asked.quick else ()
    notes = [*decided.notes, *only_read, *found.notes, *measured.notes, *snapshot.assumptions]
    return CheckAnswer.of(
        diagnosis,
        snapshot,
        mode=asked.mode,
        gpus=tuple(gpu.address for gpu in case.gpus),
        measured=measured.ends,
        exit_code=INTERRUPTED if measured.interrupted else diagnosis.verdict.exit_code,
        expect=None if against is None else against.name or None,
        expect_unconfirmed=() if against is None else against.unconfirmed,
        policy=decided.files,
        assumptions=_notes(notes, against),
        fleet=_section(asked, case),
        elapsed_seconds=round(time.monotonic() - started, 3),
        verbose=asked.verbose,
    )


def _notes(notes: Iterable[str], held_against: Reference | None) -> tuple[str, ...]:
    """The notes, each once, with what is not confirmed of the expectation."""
    if held_against is not None and held_against.unconfirmed:
        # A demo that is held against its own kind of node has the same doubts.
        doubts = sentence(held_against.unconfirmed)
        named = f"{held_against.name}: {doubts}; not compared"
        notes = [*(note for note in notes if not note.endswith(doubts)), named]
    return tuple(dict.fromkeys(notes))


def _section(asked: CheckRequest, case: Case) -> FleetSection | None:
    """What a fleet compares, where the answer is JSON."""
    if not asked.as_json and asked.output is None:
        return None
    from gputop.checking.file import origin, plain
    from gputop.topology.fleet.making import section_of

    of, host = origin(), case.snapshot.machine.host
    name = None if host is None else host.hostname
    if name and asked.recorded and not of.named:
        # A recording tells about the node that it was read on.
        of = NodeOrigin(host=plain(name.split(".")[0]) or of.host)
    return section_of(
        case.node,
        of,
        prediction=case.prediction,
        written_at=time.time(),
        with_snapshot=asked.with_snapshot,
    )


def page(found: CheckAnswer) -> Page:
    """The verdict, a line for each finding, and the first step of the worst.

    `verbose` adds what proves each, and all that helps.
    """
    silenced = tuple((finding, finding.reason) for finding in found.silenced)
    findings = Findings(found.findings, found.verbose, leading(found), silenced)
    against = compared(found.expect, found.examined, found.findings)
    held = (Text(against, role=Role.MUTED),) if against else ()
    return Page(title="check", blocks=(Text(found.verdict_line), *held, findings))


def carry_out(asked: CheckRequest) -> int:
    """List the rules, or examine the node and put out the answer, in a child before a deadline."""
    if asked.listing:
        from gputop.answers.rules import RULES, RulesRequest

        return RULES.ask(RulesRequest(as_json=asked.as_json))
    if asked.output == STDOUT:
        asked = msgspec.structs.replace(asked, output=None, as_json=True)
    decided = asked.decided()
    if asked.output is not None:
        from gputop.checking.file import origin, target

        target(asked.output, origin())  # a wrong pattern is said before anything is measured
    if asked.html is not None or asked.markdown is not None or asked.junit is not None:
        from gputop.answers.check_report import refuse_places

        refuse_places(asked)
    if asked.deadline is None:
        return _work(asked, decided, None, None)
    from gputop.checking.deadline import ends_of, supervised

    until, end = ends_of(asked.deadline)
    ended = supervised(lambda line: _work(asked, decided, until, line), end)
    if ended.code is None or (ended.problem and ended.code in (CANNOT_TELL, OWN_ERROR)):
        from gputop.checking.deadline import late_diagnosis
        from gputop.checking.file import origin

        diagnosis, node, fleet = late_diagnosis(origin(), ended, asked.deadline)
        late = CheckAnswer.of(diagnosis, node, mode=CheckLevel.QUICK, fleet=fleet)
        _put_out(asked, late, None)
        return late.exit_code if ended.code is None else ended.code
    if ended.problem:
        raise Exit(ended.problem, ended.code)
    if ended.document:
        from gputop.checking.file import write

        path, _, text = ended.document.partition("\n")
        write(Path(path), text)
    printed = ended.output.decode(errors="replace")
    with suppress(BrokenPipeError):
        if asked.as_json:
            print_document(printed)
        else:
            click.echo(printed, nl=False)
    return ended.code


def _work(asked: CheckRequest, decided: Site, until: float | None, line: Relay | None) -> int:
    code = CANNOT_TELL
    # The reader of our text may go (`| head -1`); the exit code still counts.
    with suppress(BrokenPipeError):
        found = _examine(asked, decided, until, line.stage if line else lambda text: None)
        code = found.exit_code
        if asked.junit is not None:
            from gputop.answers.junit import write

            write(found, all_rules(), asked.junit)
        _put_out(asked, found, line)
    return code


def _put_out(asked: CheckRequest, found: CheckAnswer, line: Relay | None) -> None:
    put_out(asked, found, line, partial(QUESTION.show, as_json=asked.as_json))


QUESTION = Question(
    name="check", request=CheckRequest, answer=answer, page=page, carry_out=carry_out, listed=False
)

"""One line whenever the verdict of the node, of a fault or of a job changes, until it is ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, NamedTuple

import click

from gputop.answers.jobs_watch import STAMP, WatchLine
from gputop.answers.jobs_watch import changes as job_changes
from gputop.answers.metrics import snapshots_of
from gputop.answers.question import Answer, NodeRequest, Option, Question
from gputop.checking.node import Examined
from gputop.checking.policy import site
from gputop.checking.runs import all_rules, judged
from gputop.exits import ANSWERED, USAGE, Exit
from gputop.simulating.jobs import simulated
from gputop.terminal.clean import clean
from gputop.topology.diagnosis.engine import Diagnosis
from gputop.topology.diagnosis.policy import Policy
from gputop.topology.jobs.asking import JobsReport, ask_live
from gputop.topology.jobs.ras.memory import Memory
from gputop.topology.jobs.standing import JobState
from gputop.topology.model.finding import Finding
from gputop.topology.model.page import Bullets, Page
from gputop.topology.model.severity import JobVerdict, Mark, Severity, Verdict
from gputop.topology.model.snapshot import NodeSnapshot

GONE = "no longer"
HANG = "hang"
WORDS: dict[str, tuple[Mark, ...]] = {
    "broken": (Verdict.BROKEN, Severity.BROKEN),
    "slow": (Verdict.SLOW, Severity.SLOW, JobVerdict.SLOW),
    "cannot-tell": (Verdict.CANNOT_TELL, Severity.CANNOT_TELL),
    HANG: (JobVerdict.HANGS,),
}
"""What --on takes, and the verdicts that each names."""
FindingKey = tuple[str, tuple[str, ...]]


class WatchRequest(NodeRequest, frozen=True, kw_only=True):
    """Print a line whenever the verdict of the node, a fault of it or a job changes.

    The first lines say how it stands now. Nothing is measured and nothing is sent anywhere: other
    tools carry the lines on. Exit codes, with --once: that of the line that ended it.
    """

    on: Annotated[
        str | None,
        Option(
            "--on",
            "Only lines of these verdicts: broken, slow, cannot-tell, hang. With commas.",
            "WORDS",
        ),
    ] = None
    once: Annotated[
        bool,
        Option(
            "--once",
            "End with the first look that has a line, with the exit code of the first of them.",
        ),
    ] = False
    interval: Annotated[
        float, Option("--interval", "Seconds between two looks.", "SECONDS", least=1, most=3600)
    ] = 5.0
    no_jobs: Annotated[
        bool, Option("--no-jobs", "Watch the node alone: neither /proc twice nor NCCL's RAS.")
    ] = False


class WatchAnswer(Answer, frozen=True, kw_only=True, tag="gputop.watch/1"):
    """How a node stands: what the first look of a watch says."""

    lines: tuple[str, ...]


class NodeLook(NamedTuple):
    """What one look found."""

    verdict: Verdict
    findings: dict[FindingKey, Finding]
    """The harmful ones, by id and devices."""
    jobs: dict[str, JobState]


def look(
    snapshot: NodeSnapshot,
    policy: Policy,
    jobs: JobsReport | None,
    before: NodeLook | None,
    earlier: NodeSnapshot | None = None,
) -> tuple[NodeLook, tuple[WatchLine, ...]]:
    """Judge a node as `gputop check --quick` does, and say what is new since `before`.

    `earlier`: the first reading of this watch, so that counters that grow are seen.
    """
    _, found = judged(Examined(node=snapshot, earlier=earlier), snapshot, None, policy)
    now = look_of(found, () if jobs is None else jobs.jobs)
    return now, tuple(lines_between(before, now))


def look_of(found: Diagnosis, jobs: Iterable[JobState] = ()) -> NodeLook:
    """What a diagnosis and the states of jobs say, to be compared later."""
    return NodeLook(
        verdict=found.verdict,
        findings={(one.id, one.devices): one for one in found.findings if one.severity.counts},
        jobs={job.name: job for job in jobs},
    )


def lines_between(before: NodeLook | None, now: NodeLook) -> Iterator[WatchLine]:
    """What is new; without an earlier look, how it stands."""
    known = before or NodeLook(now.verdict, {}, {})
    for key, finding in now.findings.items():
        if key not in known.findings or known.findings[key].severity is not finding.severity:
            told = f"{finding.severity.word}: {finding.title} [{finding.id}]"
            yield WatchLine(finding.severity, told)
    for key, finding in known.findings.items():
        if key not in now.findings:
            yield WatchLine(Verdict.HEALTHY, f"{GONE}: {finding.title} [{finding.id}]")
    if before is None or before.verdict is not now.verdict:
        was = "" if before is None else f", was {before.verdict}"
        yield WatchLine(now.verdict, f"node {now.verdict}{was}")
    yield from job_changes(known.jobs, now.jobs)


def wanted(words: str | None) -> tuple[Mark, ...]:
    """The verdicts that --on names; () for all. Raises Exit for a word that it does not take."""
    if words is None:
        return ()
    found: list[Mark] = []
    for word in words.split(","):
        if word.strip() not in WORDS:
            raise Exit(f"--on: {clean(word, 40)!r} is none of {', '.join(WORDS)}", USAGE)
        found += WORDS[word.strip()]
    return tuple(found)


def answer(asked: WatchRequest) -> WatchAnswer:
    """NodeLook once. Raises Exit."""
    marks, snapshot = wanted(asked.on), asked.snapshot(absences=False)
    _, lines = look(snapshot, _policy(), _jobs(asked, snapshot, {}), None)
    shown = tuple(line.shown for line in lines if _named(line, marks))
    return WatchAnswer(source=snapshot.source, assumptions=snapshot.assumptions, lines=shown)


def page(found: WatchAnswer) -> Page:
    """The lines."""
    return Page(title="watch", blocks=(Bullets(found.lines),))


def carry_out(asked: WatchRequest) -> int:
    """NodeLook again and again, and print what is new; gives the exit code with --once."""
    if asked.as_json:
        return _ONCE.ask(asked)
    return watch(asked)


def watch(
    asked: WatchRequest,
    sleep: Callable[[float], None] = time.sleep,
    say: Callable[[str], None] = click.echo,
) -> int:
    """Say each change; a recording is looked at once. Raises Exit, and KeyboardInterrupt."""
    marks, policy = wanted(asked.on), _policy()
    read = snapshots_of(asked, asked.interval)
    before: NodeLook | None = None
    first: NodeSnapshot | None = None
    memory: Memory = {}
    while True:
        snapshot = read()
        jobs = _jobs(asked, snapshot, memory)
        memory = memory if jobs is None else jobs.memory
        before, lines = look(snapshot, policy, jobs, before, first)
        first = first or snapshot
        told = [line for line in lines if _named(line, marks)]
        for line in told:
            say(f"{time.strftime(STAMP)} {line.shown}")
        if told and asked.once:
            return told[0].mark.exit_code
        if asked.sources:
            return ANSWERED
        sleep(asked.interval)


def _named(line: WatchLine, marks: tuple[Mark, ...]) -> bool:
    return not marks or any(line.mark is mark for mark in marks)


def _policy() -> Policy:
    return site(None, (), all_rules()).policy


def _jobs(asked: WatchRequest, snapshot: NodeSnapshot, memory: Memory) -> JobsReport | None:
    if asked.no_jobs or asked.sources:
        return None
    if asked.demo:
        return simulated(snapshot, asked.demo)
    return ask_live(snapshot, ras=True, memory=memory)


QUESTION = Question(
    name="watch",
    request=WatchRequest,
    answer=answer,
    page=page,
    carry_out=carry_out,
    listed=False,  # the screens show it as it changes
)
_ONCE = Question(name="watch", request=WatchRequest, answer=answer, page=page)

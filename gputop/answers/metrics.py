"""The node as series for Prometheus: once, in a file for the node exporter, or served."""

from __future__ import annotations

import itertools
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, ClassVar, NamedTuple

from gputop import __version__
from gputop.answers.metrics_otlp import OtlpSender, keep_sending
from gputop.answers.metrics_served import address_of, serve
from gputop.answers.question import Answer, Clash, NodeRequest, Option, Question
from gputop.checking.node import Examined
from gputop.checking.policy import Site, site
from gputop.checking.runs import all_rules, judged
from gputop.exits import ANSWERED, USAGE, Exit
from gputop.reading import SETTLE_SECONDS, read_snapshot
from gputop.simulating.jobs import simulated
from gputop.terminal.clean import clean
from gputop.terminal.lines import print_json, warn
from gputop.terminal.output import print_document
from gputop.terminal.writing import NO_FILE, code_of, write_whole
from gputop.topology.jobs.asking import ask_live
from gputop.topology.jobs.standing import JobState
from gputop.topology.metrics.family import MetricFamily, exposition
from gputop.topology.metrics.series import series
from gputop.topology.model.page import Column, Page, Table
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.recorded.feeds import DemoFeed
from gputop.topology.sources.live import LiveFeed

ENDING = ".prom"
_NOT_READ = f"the node exporter reads files in {ENDING} alone"


class MetricsRequest(NodeRequest, frozen=True, kw_only=True):
    """Print this node as series for Prometheus: GPUs, links, pairs, jobs and the verdict.

    Names are those of DCGM's exporter (to version 4.8) where it has one. With --textfile a file is
    written for the node exporter, again and again; nothing listens unless --listen says where.
    """

    clashes: ClassVar[tuple[Clash, ...]] = (
        Clash(
            ("--listen",),
            ("--from", "--json", "--once", "--textfile"),
            "--listen serves this machine or a demo: leave out --from, --json, --once, --textfile",
        ),
        Clash(
            ("--otlp",),
            ("--json", "--listen", "--textfile"),
            "--otlp sends, and prints nothing: leave out --json, --listen, --textfile",
        ),
        Clash(("--textfile",), ("--json",), "--textfile is in the format of Prometheus, not JSON"),
        Clash(("--jobs",), ("--from",), "a recording is not running: leave out --jobs"),
    )
    textfile: Annotated[
        str | None,
        Option(
            "--textfile",
            "Write to FILE.prom for the node exporter's textfile collector, in one step, every "
            "--interval.",
            "FILE",
            "files",
        ),
    ] = None
    once: Annotated[
        bool, Option("--once", "With --textfile or --otlp: write or send it once, and end.")
    ] = False
    otlp: Annotated[
        str | None,
        Option(
            "--otlp",
            "Send to a collector of OpenTelemetry by OTLP over HTTP, every --interval; needs "
            "gputop[otlp].",
            "URL",
        ),
    ] = None
    listen: Annotated[
        str | None,
        Option(
            "--listen",
            "Serve /metrics there, read only, until Ctrl+C: a port of this machine alone, or "
            "ADDRESS:PORT.",
            "[ADDRESS:]PORT",
        ),
    ] = None
    interval: Annotated[
        float, Option("--interval", "Seconds between two readings.", "SECONDS", least=1, most=3600)
    ] = 15.0
    jobs: Annotated[
        bool,
        Option("--jobs", "Also ask where each job stands, as `gputop jobs` does; takes seconds."),
    ] = False


class MetricsAnswer(Answer, frozen=True, kw_only=True, tag="gputop.metrics/1"):
    """The series of a node at one moment."""

    taken_at: float
    """Seconds since the epoch."""
    families: tuple[MetricFamily, ...]


class _Judging(NamedTuple):
    """How a snapshot becomes series, the same way each time."""

    asked: MetricsRequest
    decided: Site

    def of(self, snapshot: NodeSnapshot) -> tuple[MetricFamily, ...]:
        """Judge a node as `gputop check --quick` does."""
        case, found = judged(Examined(node=snapshot), snapshot, None, self.decided.policy)
        return series(case, found, self._jobs(snapshot) if self.asked.jobs else None)

    def _jobs(self, snapshot: NodeSnapshot) -> tuple[JobState, ...]:
        demo = self.asked.demo
        report = simulated(snapshot, demo) if demo else ask_live(snapshot, ras=True)
        return report.jobs


def answer(asked: MetricsRequest) -> MetricsAnswer:
    """Read the node once. Raises Exit."""
    snapshot = asked.snapshot(absences=False)
    families = _judging(asked).of(snapshot)
    return MetricsAnswer(
        source=snapshot.source,
        assumptions=snapshot.assumptions,
        taken_at=snapshot.taken_at,
        families=families,
    )


def _judging(asked: MetricsRequest) -> _Judging:
    decided = site(None, (), all_rules())
    for note in decided.notes:
        warn(note)
    return _Judging(asked, decided)


def page(found: MetricsAnswer) -> Page:
    """A row for each family: what it is called, how many series it has, what it says."""
    heads = (Column("family"), Column("kind"), Column("series", right=True), Column("what it says"))
    rows = tuple(
        (one.name, str(one.kind), str(len(one.samples)), one.help) for one in found.families
    )
    return Page(title="metrics", blocks=(Table(heads, rows),))


def carry_out(asked: MetricsRequest) -> int:
    """Print the series once, or write or serve them again and again. Raises Exit."""
    if asked.listen is not None:
        place = address_of(asked.listen)
        return serve(place, _reader(asked), asked.interval)
    if asked.otlp is not None:
        return _send(asked, asked.otlp)
    if asked.textfile is None:
        found = answer(asked)
        for sentence in found.remarks:
            warn(sentence)
        if asked.as_json:
            print_json(found.document())
        else:
            print_document(exposition(found.families))
        return found.exit_code
    if asked.textfile == "-":
        raise Exit(f"--textfile -: {NO_FILE}", USAGE)
    if not asked.textfile.endswith(ENDING):
        warn(f"{clean(asked.textfile, 200)}: {_NOT_READ}")
    read = _reader(asked)
    while True:
        _write(Path(asked.textfile), read())
        if asked.once or asked.sources:
            return ANSWERED
        time.sleep(asked.interval)


def _send(asked: MetricsRequest, endpoint: str) -> int:
    """Raises Exit, also where OpenTelemetry is not installed."""
    sender = OtlpSender(endpoint, socket.gethostname())
    once = asked.once or bool(asked.sources)
    return keep_sending(sender, _families(asked), asked.interval, once=once)


def _write(path: Path, text: str) -> None:
    try:
        write_whole(path, text, shared=True)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise Exit(f"{clean(path, 200)}: {clean(why, 200)}", code_of(error)) from error


def _reader(asked: MetricsRequest) -> Callable[[], str]:
    """Reads the node again at each call, and gives the series as text."""
    families = _families(asked)
    return lambda: exposition(families())


def _families(asked: MetricsRequest) -> Callable[[], tuple[MetricFamily, ...]]:
    """Reads the node again at each call, and gives its series."""
    judging = _judging(asked)
    snapshot_of = asked.snapshot if asked.once else snapshots_of(asked, asked.interval)
    return lambda: judging.of(snapshot_of())


def snapshots_of(asked: NodeRequest, interval: float) -> Callable[[], NodeSnapshot]:
    """Read the node of each moment: a file stays as it is, a demo and this machine go on."""
    if asked.given is not None or asked.sources:
        return asked.snapshot
    if asked.demo:
        read_snapshot((), asked.demo)  # refuses a demo that there is not
        demo, ticks = DemoFeed(asked.demo, version=__version__), itertools.count()
        return lambda: demo.at(next(ticks))  # whole from the first reading on
    feed = LiveFeed(interval=interval, version=__version__)
    until = time.monotonic() + SETTLE_SECONDS
    while not feed.settled() and time.monotonic() < until:
        feed.wait(until - time.monotonic())
        feed.snapshot()
    return feed.snapshot


QUESTION = Question(
    name="metrics",
    request=MetricsRequest,
    answer=answer,
    page=page,
    carry_out=carry_out,
    listed=False,  # the screens show what it says
)

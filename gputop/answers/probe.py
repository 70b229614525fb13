"""What GPUs and their links give: the probes are run, and their figures judged and printed."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, cast

import msgspec

from gputop.answers.figures import WIDTH, apart, table
from gputop.answers.measured import (
    LIVE,
    ListedProbe,
    MeasuredAnswer,
    ProbeCost,
    SuiteAnswer,
    chosen,
    headline,
    live_snapshot,
    page,
    page_of,
    summary,
)
from gputop.answers.predicting import changes_of
from gputop.answers.probe_history import COMPARED, HistoryRequest
from gputop.answers.question import (
    DEMO,
    FORCE,
    PYTHON,
    Answer,
    Clash,
    Option,
    Question,
    Request,
    gpus_option,
)
from gputop.exits import USAGE, Exit
from gputop.measuring import history
from gputop.measuring.attended import Attended
from gputop.measuring.expected import Expecting
from gputop.measuring.nccl_check import check_run
from gputop.measuring.planning import in_order, plan
from gputop.measuring.plugged import known
from gputop.measuring.running import MakeSuite, Suite
from gputop.measuring.runs import note_lines, with_names
from gputop.measuring.selection import hidden_note
from gputop.measuring.state import ProbeRun
from gputop.printing.render import printed
from gputop.probes import catalog
from gputop.probes.catalog.gemm.cases import LARGEST
from gputop.probes.protocol.spec import ProbeSpec
from gputop.probes.protocol.status import ProbeLevel, Status
from gputop.probes.runner.nccl_library import TORCH
from gputop.reading import check_sources, read_snapshot, settle
from gputop.simulating.suite import simulated_plan, simulated_suite
from gputop.terminal.clean import clean
from gputop.terminal.lines import print_json, warn
from gputop.terminal.nearest import instead
from gputop.terminal.output import print_lines
from gputop.terminal.writing import code_of, write_whole
from gputop.topology.model import units
from gputop.topology.model.english import plural
from gputop.topology.model.machine import Machine
from gputop.topology.model.page import Block, Page, Text
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.nccl.versions import UnknownVersionError, version_for
from gputop.topology.sources.live import LiveFeed, load_sources

RANKED = ("nccl", "collectives", "train-step")
"""Probes with a process on each GPU; they accept variables."""

# Which probes there are, and what each costs on this machine: `gputop probe --list`.
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
    probes: tuple[ListedProbe, ...]
    """What each costs and needs; its quantities appear in the answer of a run."""
    estimates: tuple[ProbeCost, ...]
    specs: tuple[ProbeSpec, ...]
    counts: tuple[int, ...]


def probe_list_answer(asked: ListRequest) -> ListAnswer:
    """The cost on the GPUs of this machine, else on 2, 4 and 8."""
    specs = tuple(catalog.load(name).SPEC for name in in_order(asked.names or catalog.NAMES))
    found = _found(asked.gpus)
    counts = (found,) if found else ELSEWHERE
    described = [msgspec.to_builtins(spec) for spec in specs]
    return ListAnswer(
        source=("live",) if found else (),
        probes=tuple(
            cast("ListedProbe", {name: each[name] for name in ListedProbe.__annotations__})
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


def _estimate(spec: ProbeSpec, count: int) -> ProbeCost:
    seconds = {level.value: round(spec.estimate_seconds(count, level), 1) for level in ProbeLevel}
    return {"name": spec.name, "gpus": count, "seconds": seconds}


def probe_list_page(found: ListAnswer) -> Page:
    """A table for each number of GPUs."""
    heads = ("GPUs", "memory", *ProbeLevel)
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
            for level in ProbeLevel
        ]
        name = f"{spec.name:<15}{spec.title[:_LONGEST_TITLE]}"
        memory = units.size(spec.memory_bytes_per_gpu)
        rows.append([name, str(spec.minimum_gpus), memory, *seconds])
    sums = [f"{_sum(specs, count, level):.0f}" for level in ProbeLevel]
    return [*rows, ["all of them", "", "", *sums]]


def _sum(specs: tuple[ProbeSpec, ...], count: int, level: str) -> float:
    """Seconds for all probes; those that share a worker start torch once."""
    able = [spec for spec in specs if count >= spec.minimum_gpus]
    started = {spec.needs_torch: spec.start_seconds for spec in reversed(able)}
    return sum(started.values()) + sum(spec.measuring_seconds(count, level) for spec in able)


LISTED = Question(
    name="list",
    request=ListRequest,
    answer=probe_list_answer,
    page=probe_list_page,
    width=lambda: WIDTH,
)


class MeasuringRequest(Request, frozen=True, kw_only=True):
    """Measure GPUs and their links: the named probes, or all that can run here.

    `gputop probe net` is a command of its own: it measures between nodes.
    """

    clashes: ClassVar[tuple[Clash, ...]] = (
        Clash(("--selftest",), ("--demo",), "--selftest and --demo exclude each other"),
        Clash(("--demo",), ("--history",), "a demo has no history: what is simulated is not kept"),
        Clash(("--selftest",), ("--gpus",), "--selftest measures no GPU: leave --gpus out"),
    )
    names: Annotated[tuple[str, ...], Option("names", "", "[NAME]...", "probes")] = ()
    demo: Annotated[str | None, DEMO] = None
    listing: Annotated[
        bool,
        Option("--list", "List the probes and what they cost.", conflicts=("--history",)),
    ] = False
    history: Annotated[
        bool, Option("--history", "Compare the last runs on this node with earlier ones.")
    ] = False
    gpus: Annotated[str | None, gpus_option("Measure")] = None
    quick: Annotated[
        bool,
        Option(
            "--quick",
            "The useful minimum: under a minute on four GPUs.",
            conflicts=("--full",),
        ),
    ] = False
    full: Annotated[bool, Option("--full", "Every size, shape and NUMA node.")] = False
    large: Annotated[bool, Option("--large", "collectives: messages above 1 GiB too.")] = False
    force: Annotated[bool, FORCE] = False
    python: Annotated[str | None, PYTHON] = None
    selftest: Annotated[
        bool, Option("--selftest", "Test the probes on the CPU; no GPU is measured.")
    ] = False
    shape: Annotated[
        str | None,
        Option("--shape", "gemm: this product alone, M x K times K x N, in every type.", "M,K,N"),
    ] = None
    trace: Annotated[
        bool, Option("--trace", "p2p: name the kernels that ran (profiles one pair).")
    ] = False
    assignments: Annotated[
        tuple[str, ...],
        Option(
            "--set",
            "nccl, collectives, train-step: set a variable for the run. May be repeated.",
            "NAME=VALUE",
            "settings",
        ),
    ] = ()
    loopback: Annotated[
        bool,
        Option("--loopback", "The same probes: rendezvous on lo, not on the job's interface."),
    ] = False
    version: Annotated[
        str | None,
        Option(
            "--nccl", "nccl: compare with the prediction for this library.", "VERSION", "versions"
        ),
    ] = None
    nccl_lib: Annotated[
        str | None,
        Option(
            "--nccl-lib",
            "nccl, collectives: the libnccl to load; torch for the one of --python's torch, by "
            "torch.",
            "FILE",
            "files",
        ),
    ] = None
    logs: Annotated[
        str | None, Option("--logs", "nccl: keep each rank's debug log here.", "FOLDER", "files")
    ] = None
    deadline: Annotated[
        float | None,
        Option("--deadline", "Stop a probe after this time.", "SECONDS", least=1, most=86400),
    ] = None

    @property
    def level(self) -> ProbeLevel:
        """How much is measured."""
        return (
            ProbeLevel.QUICK if self.quick else ProbeLevel.FULL if self.full else ProbeLevel.NORMAL
        )

    @property
    def probes(self) -> tuple[str, ...]:
        """The probes that run."""
        return self.names or catalog.NAMES

    @property
    def changes(self) -> dict[str, str]:
        """Variables that the ranks get in addition to their environment. Raises Exit."""
        changes = {name: value or "" for name, value in changes_of(self.assignments).items()}
        if self.loopback:
            if "NCCL_SOCKET_IFNAME" in changes:
                raise Exit("--loopback sets NCCL_SOCKET_IFNAME itself", USAGE)
            changes["NCCL_SOCKET_IFNAME"] = "lo"
        return changes

    @property
    def params(self) -> dict[str, tuple[tuple[str, Any], ...]]:
        """Further parameters by name of the probe."""
        ranked = (("set", self.changes), ("loopback", self.loopback))
        params: dict[str, tuple[tuple[str, Any], ...]] = dict.fromkeys(RANKED, ranked)
        if self.large:
            params["collectives"] += (("large", True),)
        if self.trace:
            params["p2p"] = (("trace", True),)
        if self.shape is not None:
            params["gemm"] = (("shape", self.product),)
        return params

    @property
    def product(self) -> list[int]:
        """M, K and N of the only product that is timed. Raises Exit."""
        sizes = re.fullmatch(r"(\d{1,7})[,x ](\d{1,7})[,x ](\d{1,7})", self.shape or "", re.ASCII)
        found = [int(size) for size in sizes.groups()] if sizes is not None else []
        if not found or not all(1 <= size <= LARGEST for size in found):
            text = f"--shape is M,K,N, like 8192,8192,8192: three numbers from 1 to {LARGEST}"
            raise Exit(f"{text}, not {clean(self.shape or '', 60)!r}", USAGE)
        return found

    @property
    def library(self) -> str | None:
        """The file of the library as a whole path, or the word for torch's own. Raises Exit."""
        if self.nccl_lib is None:
            return None
        if not any(catalog.load(name).SPEC.by_library for name in self.probes):
            raise Exit("--nccl-lib is for the probes nccl and collectives", USAGE)
        if self.demo or self.selftest:
            without = "--demo simulates" if self.demo else "--selftest uses torch on the CPU"
            raise Exit(f"{without}, and loads no library: leave --nccl-lib out", USAGE)
        if self.nccl_lib == TORCH:
            return TORCH
        path = os.path.abspath(self.nccl_lib)
        if not os.path.isfile(path):
            raise Exit(f"--nccl-lib names no file: {clean(path, 200)}", USAGE)
        return path

    def check_names(self) -> None:
        """Refuse what is no probe, and values that are none. Raises Exit."""
        if any(name in catalog.BETWEEN_NODES for name in self.names):
            text = "the network is measured alone, between nodes: gputop probe net --help"
            raise Exit(text, USAGE)
        for name in self.names:
            if name not in catalog.NAMES and name not in known():
                hint = instead(name, known())
                raise Exit(f"no probe {clean(name, 60)!r}{hint}", USAGE)
        check_sources((), self.demo)
        if self.python == "":
            raise Exit("--python is empty: name a Python, or leave it out", USAGE)

    def check_options(self) -> None:
        """Refuse options of probes that do not run. Raises Exit."""
        try:
            if self.version is not None:
                version_for(self.version)
        except UnknownVersionError as error:
            raise Exit(str(error), USAGE) from error
        if self.logs is not None and os.path.exists(self.logs) and not os.path.isdir(self.logs):
            raise Exit(f"--logs names no folder: {clean(self.logs, 200)}", USAGE)
        others = ", ".join(name for name in RANKED if name != "nccl")
        for given, probes, why in (
            (self.version or self.logs, ("nccl",), "--nccl and --logs are for the probe nccl"),
            (
                self.changes,
                RANKED,
                f"--set and --loopback are for the probe nccl and for {others}",
            ),
            (self.large, ("collectives",), "--large is for the probe collectives"),
            (self.trace, ("p2p",), "--trace is for the probe p2p"),
            (self.shape is not None and self.product, ("gemm",), "--shape is for the probe gemm"),
        ):
            if given and not set(probes) & set(self.probes):
                raise Exit(why, USAGE)

    def snapshot(self) -> NodeSnapshot | None:
        """The node to measure, None for the self-test. Raises Exit."""
        if self.selftest:
            return None
        # Probes of a demo are simulated.
        return read_snapshot((), self.demo) if self.demo else live_snapshot()


def carry_out(asked: MeasuringRequest) -> int:
    """List the probes, compare their history, or run them; gives the exit code."""
    names = tuple(name for word in asked.names for name in word.split(","))
    asked = msgspec.structs.replace(asked, names=names)
    asked.check_names()
    if asked.listing:
        return LISTED.ask(ListRequest(names=asked.names, gpus=asked.gpus, as_json=asked.as_json))
    if asked.history:
        return COMPARED.ask(HistoryRequest(names=asked.names, as_json=asked.as_json))
    # What takes minutes is printed as it comes, and its answer last, where somebody waits for it.
    at_once = bool(asked.demo) or len(asked.probes) == 1
    streamed = not at_once and not asked.as_json
    found = answer(asked, lambda run: _print(page_of(run).blocks, "\n") if streamed else None)
    if asked.as_json:
        print_json(found.document())
    elif at_once:
        _print(page(found).blocks)
    elif found.state is not None:
        _print((*summary(found.state), *headline(found)))
    return found.exit_code


def _print(blocks: Iterable[Block], end: str = "") -> None:
    if lines := printed(blocks, WIDTH):
        print_lines((*lines, *(((),) if end else ())))


def answer(
    asked: MeasuringRequest, on_end: Callable[[MeasuredAnswer], None] = lambda found: None
) -> SuiteAnswer:
    """Run the probes; notes go to stderr. `on_end` gets each answer as soon as it is there."""
    library = asked.library
    asked.check_options()
    snapshot = asked.snapshot()
    if snapshot is not None and asked.gpus is None and (note := hidden_note(snapshot)):
        warn(f"note: {note}")
    planned = plan(
        asked.names,
        Machine() if snapshot is None else snapshot.machine,
        () if snapshot is None else chosen(asked.gpus, snapshot),
        level=asked.level,
        force=asked.force,
        selftest=asked.selftest,
        python=asked.python,
        nccl_lib=library,
        deadline_seconds=asked.deadline,
        params=asked.params,
    )
    make: MakeSuite = Suite
    if asked.demo and snapshot is not None:
        planned = simulated_plan(planned)
        # Where nobody watches there is nothing to wait for.
        make = simulated_suite(snapshot, at_once=not sys.stderr.isatty())
    attended = Attended(planned, make)
    if len(planned.steps) > 1 or planned.simulated:
        warn(planned.sentence)
    names = dict(planned.steps[0].request.names)
    judging = _Judging(asked, snapshot, names)
    runs = []
    for run in attended.ends():
        runs.append(judging.of(run))
        on_end(runs[-1])
        judging.note(run)
    return SuiteAnswer(
        source=judging.source,
        runs=tuple(runs),
        state=attended.state,
        interrupted=attended.interrupted,
    )


class _Judging:
    """Judges, keeps and comments on the runs of one suite."""

    def __init__(
        self, asked: MeasuringRequest, snapshot: NodeSnapshot | None, names: Mapping[str, str]
    ) -> None:
        self._asked = asked
        self._snapshot = snapshot
        self._names = names
        self._expecting = Expecting(snapshot, names)
        self.source = LIVE if snapshot is None else snapshot.source
        self._kept = ""
        self._noted = {""}

    def of(self, run: ProbeRun) -> MeasuredAnswer:
        """The answer of a run, which goes into the history of the node."""
        asked, nccl = self._asked, None
        if run.outcome.logs:
            nccl = check_run(self._snapshot, run, asked.changes, library=asked.version)
            if asked.logs is not None:
                keep_logs(run, Path(asked.logs))
        known = self._expecting.of(run.measurements)
        words = [judgement.verdict for judgement in known.judgements]
        self._kept = history.keep_result(self._snapshot, run, words)
        return MeasuredAnswer.of(run, known, nccl, self.source)

    def note(self, run: ProbeRun) -> None:
        """Print notes and the end of a run on stderr, each text once for all probes."""
        for text in (*run.blind, *note_lines(run.outcome.notes, self._names), self._kept):
            self._once(f"note: {text}", text)
        if run.status != Status.SKIPPED:
            message = with_names(run.outcome.message, self._names)
            self._once(f"{run.name}: {message}", message)

    def _once(self, line: str, key: str) -> None:
        if key not in self._noted:
            self._noted.add(key)
            warn(line)


def keep_logs(run: ProbeRun, folder: Path) -> None:
    """Write the debug log of each rank into a folder; raises Exit when that fails."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for rank in run.outcome.ranks_logged():
            write_whole(folder / f"rank{rank}.log", run.outcome.log_of(rank))
    except OSError as error:
        why = f"cannot write the logs: {error.strerror}: {folder}"
        raise Exit(why, code_of(error)) from error


QUESTION = Question(
    name="probe",
    request=MeasuringRequest,
    answer=answer,
    page=page,
    carry_out=carry_out,
)

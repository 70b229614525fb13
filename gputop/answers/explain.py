"""What NCCL or RCCL will do on a node, and why: transports, paths, rings, trees, algorithms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, ClassVar

import msgspec

from gputop.answers.explain_advice import Advice, advice_on
from gputop.answers.predicting import (
    PredictingRequest,
    changes_of,
    missing_of,
    pair_of,
    rank_of,
    selected,
)
from gputop.answers.question import Clash, Option, Question, Reply
from gputop.exits import CANNOT_TELL, USAGE, Exit
from gputop.measuring.selection import PAIR
from gputop.terminal.clean import clean
from gputop.terminal.size import text_width
from gputop.topology.cost.over_hosts import HostsCall, blocks_over_hosts
from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import LACKING, diagnose
from gputop.topology.expectation.calls.times import CallTime
from gputop.topology.expectation.cost.costs import costs_of
from gputop.topology.expectation.domains import RackDomain, domain_of
from gputop.topology.explain.answered import change_head, gpu_blocks, pair_head
from gputop.topology.explain.prediction import MATRIX_RANKS, library_line, prediction_blocks
from gputop.topology.explain.rank_orders import bottleneck
from gputop.topology.flags.values.predicting import predict_with_flags
from gputop.topology.flags.what_if.changes import Changes, with_changes
from gputop.topology.flags.what_if.effects import Comparison, compare
from gputop.topology.flags.what_if.remedy import remedy
from gputop.topology.flags.what_if.study import Study
from gputop.topology.flags.what_if.wording import sections
from gputop.topology.model.finding import Finding
from gputop.topology.model.page import Blank, Block, Findings, Page, Role, Steps, Text
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.model.versions import Library
from gputop.topology.nccl.decide.predict import COLLECTIVES, NoGpusError, choice_of
from gputop.topology.nccl.followed import followed
from gputop.topology.nccl.hosts.equal_hosts import LIMIT, predict_hosts
from gputop.topology.nccl.hosts.missing import UnknownNicError
from gputop.topology.nccl.hosts.records import MultiNode
from gputop.topology.nccl.prediction import (
    NO_NVLS,
    AlgorithmChoice,
    DomainView,
    Graphs,
    PairDecision,
    Prediction,
    Tuning,
)
from gputop.topology.nccl.settings import Settings
from gputop.topology.nccl.versions import UnknownVersionError
from gputop.topology.node import Node

SOUND = "What follows is what the library decides; it is as fast as this without these faults."
OF_PATHS = ("links-unused", "pcie-width", "figure-far-below")
"""Findings about the way between GPUs, which are told with what to do, notices too."""


class ExplainRequest(PredictingRequest, frozen=True, kw_only=True):
    """Predict transport, path, rings, trees and algorithms, with the reason for each.

    SRC and DST name one pair: a rank, GPU5, a PCI address, a UUID, nvml:N or cuda:N; 0-5 is short
    for 0 5. SRC alone shows one GPU, with the links, the CPUs and the NIC near it. Without them all
    pairs of the communicator are shown.
    """

    clashes: ClassVar[tuple[Clash, ...]] = (
        Clash(
            ("--missing",),
            ("--against",),
            "--missing and --against: compare versions on equal hosts",
        ),
    )
    src: Annotated[str | None, Option("SRC", "the first rank", completes="ranks")] = None
    dst: Annotated[str | None, Option("DST", "the second rank", completes="ranks")] = None
    nodes: Annotated[
        int,
        Option(
            "--nodes",
            f"Also predict N hosts like this one, up to {LIMIT}: rings, trees, rails.",
            "N",
            least=1,
            most=LIMIT,
        ),
    ] = 1
    missing: Annotated[
        tuple[str, ...],
        Option(
            "--missing",
            "With --nodes: a NIC that one host lacks, 3:mlx5_2; hosts count from 0. May be "
            "repeated.",
            "HOST:NIC",
        ),
    ] = ()
    against: Annotated[
        str | None,
        Option(
            "--against",
            "What would change from the version of --nccl to this one, and by which rule.",
            "VERSION",
            "versions",
        ),
    ] = None
    collectives: Annotated[
        bool,
        Option(
            "--collectives",
            "Also give the time of every collective on this host, with bus and algorithm "
            "bandwidth, by size; with --nodes over all hosts and over each rail too.",
        ),
    ] = False
    at_once: Annotated[
        tuple[str, ...],
        Option(
            "--at-once",
            "With --collectives: the GPUs of another communicator that runs the same call at the "
            "same time. May be repeated.",
            "LIST",
            "ranks",
        ),
    ] = ()


class ExplainAnswer(Reply, frozen=True, kw_only=True, tag="gputop.explain/1"):
    """A prediction; `baseline` and `two_node` are answers of the same kind."""

    hidden: ClassVar[tuple[str, ...]] = ("view",)
    library: Library
    followed: str = ""
    """Which library the prediction follows, and why."""
    environment: dict[str, str]
    nodes: int
    coll_channels: int | None
    pairs: tuple[PairDecision, ...]
    views: tuple[DomainView, ...]
    graphs: Graphs
    choices: tuple[AlgorithmChoice, ...]
    tuning: Tuning
    ignored: tuple[tuple[str, str, str], ...]
    failure: str | None
    assumptions: tuple[str, ...]
    advice: tuple[Advice, ...] = ()
    """Remarks of `check --gpus` on the design of this communicator."""
    findings: tuple[Finding, ...] = ()
    """What `check` finds broken or slow in the files of --from: the prediction is of a node
    without these faults."""
    baseline: ExplainAnswer | msgspec.UnsetType = msgspec.UNSET
    two_node: ExplainAnswer | msgspec.UnsetType = msgspec.UNSET
    """What one of two equal hosts decides, with `--nodes 2`."""
    multi_node: MultiNode | msgspec.UnsetType = msgspec.UNSET
    """Rings, trees and rails over all hosts, with `--nodes` of two and more, by their NICs; left
    out where one NVLink domain joins them all, because NCCL then takes none of these."""
    domain: RackDomain | msgspec.UnsetType = msgspec.UNSET
    """The NVLink domain that joins these hosts, where there is one: its figure is the job's."""
    collectives: tuple[CallTime, ...] | msgspec.UnsetType = msgspec.UNSET
    """Every collective at every size, with `--collectives`."""
    over_hosts: tuple[HostsCall, ...] | msgspec.UnsetType = msgspec.UNSET
    """All-reduces over all hosts and over each rail, with `--collectives` and `--nodes`."""
    view: Explained | msgspec.UnsetType = msgspec.UNSET
    """What its page is made of; only of the answer itself."""


class Explained(msgspec.Struct, frozen=True):
    """What a page on a prediction shows."""

    asked: ExplainRequest
    snapshot: NodeSnapshot
    addresses: tuple[str, ...] | None
    baseline: Prediction
    """Without --set."""
    prediction: Prediction
    two: Prediction | None
    """Of a job over two hosts."""
    many: MultiNode | None
    """Of a job over several hosts."""
    domain: RackDomain | None
    """That joins these hosts."""
    pair: tuple[int, int] | None
    advice: tuple[Advice, ...]
    findings: tuple[Finding, ...]
    rank: int | None = None
    """The rank of the one GPU that somebody asked about."""
    collectives: tuple[CallTime, ...] | None = None
    """The times of all collectives, where somebody asked for them."""
    over_hosts: tuple[HostsCall, ...] | None = None

    def blocks(self) -> Iterator[Block]:
        """Faults first, then several hosts where somebody asked for them, one host, the changes."""
        asked, prediction = self.asked, self.prediction
        yield from self._faults()
        yield from self._several()
        changes = changes_of(asked.settings)
        comparison = self._comparison(changes) if changes else None
        if self.rank is not None:
            yield from gpu_blocks(Node(self.snapshot).with_prediction(prediction), self.rank)
            return
        if self.pair is not None:
            yield from (*self._pair_head(changes), Blank())
        if comparison is not None:
            node = Node(self.snapshot)
            yield from change_head(comparison, node, changes, whole=self._whole)
            for section in sections(comparison):
                yield from section.blocks()
            yield Blank()
        cost = None
        if self._whole and not changes and self.pair is None:
            cost = costs_of(Node(self.snapshot).with_prediction(self.baseline)).all_reduce
        if named := library_line(self.snapshot, asked.library):
            yield Text(named)
        unsure = comparison is not None and comparison.without_nvls is not None
        text = "" if cost is None else cost.text
        narrow = ""
        if self.pair is None and not changes and prediction.ranks <= MATRIX_RANKS:
            narrow = bottleneck(Node(self.snapshot).with_prediction(prediction))
        yield from prediction_blocks(
            prediction,
            self.pair,
            text,
            narrow=narrow,
            notes=() if cost is None else cost.notes,
            unsure=unsure,
        )
        yield from self._advised()
        yield from self._beside()

    def _beside(self) -> Iterator[Block]:
        """Times of collectives, those over hosts, and the same pair over two hosts."""
        if self.collectives is not None:
            from gputop.topology.explain.collectives import blocks_of_times

            yield Blank()
            yield from blocks_of_times(self.collectives)
        if self.over_hosts is not None:
            yield Blank()
            rack = self.domain is not None
            yield from blocks_over_hosts(self.over_hosts, self.asked.nodes, rack=rack)
        if self.two is not None and self.pair is not None:
            yield from (Blank(), Text("The same pair in a job over two hosts:"))
            yield from prediction_blocks(self.two, self.pair)

    def _faults(self) -> Iterator[Block]:
        if not self.findings:
            return
        yield Findings(self.findings)
        for finding in self.findings:
            if finding.id in OF_PATHS:
                yield Steps(finding.fix, 4)
        yield from (Text(SOUND, role=Role.MUTED), Blank())

    def _several(self) -> Iterator[Block]:
        """All hosts of a job over several."""
        if self.many is None:
            return
        from gputop.topology.explain.domains import sections_of_domain
        from gputop.topology.explain.hosts import sections as sections_of_hosts

        assumed = self.prediction.assumptions
        found = (
            sections_of_hosts(self.many, assumed)
            if self.domain is None
            else sections_of_domain(self.many, self.domain)
        )
        for section in found:
            yield from section.blocks()
        yield from (Blank(), Text("One host alone:"))

    def _advised(self) -> Iterator[Block]:
        if self.advice:
            yield Blank()
        for advice in self.advice:
            yield Text(f"{advice.title}: {advice.why}")
            if advice.command:
                yield Text(f"{advice.text.rstrip('.')}: {advice.command}", indent=2)

    @property
    def _whole(self) -> bool:
        """Whether it is about all GPUs, with the library that the node has."""
        return self.addresses is None and self.asked.library is None

    def _comparison(self, changes: Changes) -> Comparison:
        slower = None
        if self.prediction.by_nvls_alone:
            changed = {**changes, **NO_NVLS}
            slower = _one(self.asked, self.snapshot, self.addresses, changed)
        return compare(self.baseline, self.prediction, changes, slower)

    def _pair_head(self, changes: Changes) -> Iterator[Block]:
        """The answer about the pair, as the screen Pairs gives it."""
        assert self.pair is not None
        decided = self.prediction.pair(*self.pair)
        if decided is None:
            return
        src, dst = decided.src_bus_id, decided.dst_bus_id
        study = Study(self.snapshot, library=self.asked.library, gpus=self.addresses)
        node = Node(with_changes(self.snapshot, changes)).with_prediction(self.prediction)
        yield from pair_head(node, src, dst, remedy(study, src, dst, changes))


def answer(asked: ExplainRequest) -> ExplainAnswer:
    """Predict what is asked for. Raises Exit where something cannot be predicted."""
    changes = changes_of(asked.settings)
    lacking = missing_of(asked.missing, asked.nodes)
    snapshot = asked.snapshot()
    addresses = selected(asked.gpus, snapshot.machine)
    found = faults_of(snapshot) if asked.sources else ()
    with _refusals(found):
        if asked.against is not None:
            # What few ask for is imported where it is asked for.
            from gputop.answers.upgrade import answer as against

            return against(asked, snapshot, changes, addresses)
        baseline = _one(asked, snapshot, addresses, {})
        prediction = _one(asked, snapshot, addresses, changes) if changes else baseline
        two = _one(asked, snapshot, addresses, changes, 2) if asked.nodes == 2 else None
        many = domain = None
        if asked.nodes > 1:
            many = predict_hosts(
                snapshot,
                Settings.of(snapshot, changes),
                library=asked.library,
                gpus=addresses,
                hosts=asked.nodes,
                missing=lacking,
            )
            domain = domain_of(snapshot, Settings.of(snapshot, changes), many)
    pair, rank = _named(asked, snapshot, prediction)
    advice = advice_on(snapshot, prediction)
    collectives = over_hosts = None
    if asked.collectives or asked.at_once:
        from gputop.answers.explain_times import hosts_asked, times_asked

        changed = with_changes(snapshot, changes)
        collectives = times_asked(asked, changed, prediction, addresses)
        over_hosts = hosts_asked(asked, changed, addresses)
    view = Explained(
        asked,
        snapshot,
        addresses,
        baseline,
        prediction,
        two,
        many,
        domain,
        pair,
        advice,
        found,
        rank,
        collectives,
        over_hosts,
    )

    def document(side: Prediction | None) -> ExplainAnswer | msgspec.UnsetType:
        return msgspec.UNSET if side is None else answer_of(side, snapshot.source, pair, rank)

    return answer_of(
        prediction,
        snapshot.source,
        pair,
        rank,
        followed=followed(snapshot.machine, asked.library),
        advice=advice,
        findings=found,
        baseline=document(baseline if changes else None),
        two_node=document(two),
        multi_node=msgspec.UNSET if many is None or _joined(domain) else many,
        domain=msgspec.UNSET if domain is None else domain,
        collectives=msgspec.UNSET if collectives is None else collectives,
        over_hosts=msgspec.UNSET if over_hosts is None else over_hosts,
        view=view,
    )


def _joined(domain: RackDomain | None) -> bool:
    """Whether NCCL makes one system of all hosts; rings by NICs are then not those of the job."""
    return domain is not None and domain.joined is True and domain.spanned == 1


def _named(
    asked: ExplainRequest, snapshot: NodeSnapshot, prediction: Prediction
) -> tuple[tuple[int, int] | None, int | None]:
    """The ranks of the pair that the user named, or the rank of the only GPU."""
    src, machine = asked.src, snapshot.machine
    if src is None or asked.dst is not None or PAIR.fullmatch(src):
        return pair_of(src, asked.dst, machine, prediction), None
    if asked.settings or asked.nodes > 1:
        word = clean(src, 40)
        raise Exit(f"{word} is one GPU: name two to see what changes between them", USAGE)
    if not prediction.pairs:
        return None, None  # the only GPU here: the whole page is about it
    return None, rank_of(src, machine, prediction)


def call_of(
    asked: ExplainRequest, found: ExplainAnswer, collective: str, size_bytes: int
) -> ExplainAnswer:
    """The answer with the choice for one call alone; `size_bytes` as nccl-tests counts it."""
    snapshot = asked.snapshot()
    if collective not in COLLECTIVES:
        known = ", ".join(COLLECTIVES)
        raise Exit(f"no collective {clean(collective, 40)!r} here; there are: {known}", USAGE)
    with _refusals(()):
        choice = choice_of(
            snapshot,
            Settings.of(snapshot, changes_of(asked.settings)),
            collective,
            size_bytes,
            library=asked.library,
            gpus=selected(asked.gpus, snapshot.machine),
            nodes=asked.nodes,
        )
    return msgspec.structs.replace(found, choices=() if choice is None else (choice,))


def faults_of(snapshot: NodeSnapshot) -> tuple[Finding, ...]:
    """What the rules of `check` find in what --from names: all faults, and notices of paths."""
    found = diagnose(Case(Node(snapshot).decide())).findings
    return tuple(
        one for one in found if one.id in OF_PATHS or (one.severity.counts and one.id != LACKING)
    )


def _one(
    asked: ExplainRequest,
    snapshot: NodeSnapshot,
    addresses: tuple[str, ...] | None,
    changes: Changes,
    nodes: int = 1,
) -> Prediction:
    settings = Settings.of(snapshot, changes)
    return predict_with_flags(
        snapshot, settings, library=asked.library, gpus=addresses, nodes=nodes
    )


def answer_of(
    prediction: Prediction,
    source: tuple[str, ...],
    pair: tuple[int, int] | None = None,
    rank: int | None = None,
    **more: Any,
) -> ExplainAnswer:
    """The answer that a prediction gives.

    `pair` keeps only that ordered pair of ranks, `rank` the pairs from one.
    """
    pairs = prediction.pairs
    if rank is not None:
        pairs = tuple(item for item in pairs if item.src == rank)
    if pair is not None:
        pairs = tuple(item for item in pairs if (item.src, item.dst) == pair)
    return ExplainAnswer(
        source=source, pairs=pairs, **{name: getattr(prediction, name) for name in _TAKEN}, **more
    )


_TAKEN = (
    "library", "environment", "nodes", "coll_channels", "views", "graphs", "choices", "tuning",
    "ignored", "failure", "assumptions",
)  # fmt: skip
"""Fields of an answer that are those of its prediction."""


@contextmanager
def _refusals(found: Sequence[Finding]) -> Iterator[None]:
    """End the command with a sentence where something cannot be predicted, with what is found."""
    try:
        yield
    except UnknownNicError as error:
        raise Exit(f"--missing: {error}", USAGE) from error
    except UnknownVersionError as error:
        raise Exit(str(error), USAGE) from error
    except NoGpusError as error:
        faults = "; ".join(f"{finding.severity.sign} {finding.title}" for finding in found)
        more = f". `gputop check` finds {faults}" if faults else ""
        raise Exit(f"nothing to explain: {error}{more}", CANNOT_TELL) from error


def page(found: ExplainAnswer) -> Page:
    """The answer as people read it."""
    assert not isinstance(found.view, msgspec.UnsetType)
    return Page(title="explain", blocks=tuple(found.view.blocks()))


QUESTION = Question(
    name="explain",
    request=ExplainRequest,
    answer=answer,
    page=page,
    width=text_width,
    listed=False,  # the screens Node, Pairs and Flags show it
)

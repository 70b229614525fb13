"""A whole log in sections of a title and blocks, for the screen and for `gputop log`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence, Sized
from typing import TYPE_CHECKING, NamedTuple

from gputop.pages.log_findings import answer_lines, failed_transports, findings
from gputop.pages.own_diagnostics import only_diagnostics, own_diagnostics, verdicts
from gputop.terminal.clean import clean
from gputop.topology.logs.comparing.agreement import LogTopic
from gputop.topology.logs.report.communicator import STARTED
from gputop.topology.model import units
from gputop.topology.model.gathered import gathered
from gputop.topology.model.page import (
    Block,
    Column,
    Heading,
    Indented,
    Page,
    Role,
    Rows,
    Runs,
    Table,
    Text,
)
from gputop.topology.model.severity import BROKEN, CANNOT_TELL, Accord, Mark
from gputop.topology.recorded.kept import not_looked_through

if TYPE_CHECKING:
    from gputop.topology.diagnosis.symptoms.log import ReadLog
    from gputop.topology.logs.comparing.agreement import Agreement, ComparedItem, PairAgreement
    from gputop.topology.logs.report.communicator import Communicator, LoggedGraph, LoggedRing
    from gputop.topology.logs.report.report import LogReport

PLAIN, STRONG, MUTED, WARN, BAD = Role.PLAIN, Role.STRONG, Role.MUTED, Role.WARN, Role.BAD
PATTERNS = {1: "Tree", 2: "Tree", 3: "Tree", 4: "Ring", 5: "NVLS", 6: "CollNet"}
KINDS = {"P2P": Role.NVLINK, "SHM": Role.SOCKET, "NET": Role.PCIE, "COLLNET": Role.PCIE}
"""Beginning of a transport's label -> what carries it."""
LAYOUT = (LogTopic.CHANNELS, LogTopic.NODES, LogTopic.RINGS, LogTopic.TREES)
PATHS = ((LogTopic.PATH, "paths between GPUs"), (LogTopic.NET, "paths to NICs"))
MOST_ROWS, MOST_RANKS, MOST_IN_MATRIX = 24, 64, 16
MOST_RINGS, MOST_OTHERS = 4, 6
CELL = 6


class LogSection(NamedTuple):
    """A title and the blocks below it."""

    title: str
    blocks: tuple[Block, ...]


def log_page(read: ReadLog) -> Page:
    """The whole log: the answer, what it is, all findings, then the rest."""
    head = LogSection("Log", tuple(_head(read)))
    found = LogSection("Findings", tuple(findings(read)))
    blocks: list[Block] = [Indented(tuple(answer_lines(read)), 2)]
    for section in (head, found, *sections(read)):
        blocks += [Heading(section.title), Indented(section.blocks, 2)]
    return Page(title="log", blocks=tuple(blocks))


def sections(read: ReadLog) -> list[LogSection]:
    """What the log shows: communicator, variables, transports, rings, algorithms, prediction."""
    log = read.log
    found: list[tuple[str, Iterable[Block]]] = []
    comm = log.main
    if log.diagnostics:
        found.append(("The library's own diagnostics", own_diagnostics(log.diagnostics)))
    if comm is not None:
        others = len(log.communicators) - 1
        more = f", the largest of {others + 1}" if others else ""
        found += [
            (f"Communicator {clean(comm.ident, 40)}{more}", ranks(comm, log.versions.library)),
            ("Environment", _environment(log)),
            ("Transports, rows send, columns receive", _transports(read, comm)),
            ("Rings and trees", _graphs(read, comm)),
            ("Algorithms", _choices(read, comm)),
        ]
    elif log.environment or (of_library(log) and not log.diagnostics):
        found.append(("Environment", _environment(log)))
    if read.measured:
        found.append(("Measured, as pasted", _measured(read)))
    if of_library(log) or read.overlay.agreement.comparable:
        found.append(("Prediction", _prediction(read)))
    return [LogSection(title, tuple(blocks)) for title, blocks in found]


def of_library(log: LogReport) -> bool:
    """Whether a library of collectives printed anything in this text."""
    return bool(log.library_lines or log.communicators or log.diagnostics or log.versions.library)


def _line(*runs: tuple[str, Role], hanging: int = 2, indent: int = 0) -> Text:
    return Text(runs, hanging=hanging, indent=indent)


def _muted(text: str, hanging: int = 2, indent: int = 0) -> Text:
    return Text(((text, MUTED),), hanging=hanging, indent=indent)


def compared(read: ReadLog) -> str:
    """The result of the comparison, with the rules and the node that it uses."""
    agreement, node = read.overlay.agreement, read.overlay.node
    if not agreement.comparable:
        return agreement.sentence
    return f"{agreement.sentence} ({agreement.library}, {node or 'without a node'})"


def agreed(read: ReadLog) -> Accord:
    """Whether the prediction agrees with the log."""
    agreement = read.overlay.agreement
    return Accord.of(not agreement.differing if agreement.comparable else None)


def _head(read: ReadLog) -> Iterator[Text]:
    """Version, size and the result of the comparison; before them, of diagnostics alone, theirs."""
    if only_diagnostics(read.log):
        yield from verdicts(read.log.diagnostics)
    yield Text(version(read.log))
    agreement = read.overlay.agreement
    known = agreement.agree + len(agreement.differing)
    mark = agreed(read) if known else Accord.OPEN
    if of_library(read.log) or agreement.comparable:
        yield Text.marked(mark, (f" {clean(compared(read), 400)}", PLAIN))
    yield from outputs(read.log)
    yield from gaps(read.log)


def version(log: LogReport) -> Runs:
    """Version and size of a log."""
    versions = log.versions
    name = versions.library.upper() if versions.library else "NCCL or RCCL"
    said = f"{name} {versions.version or 'of unknown version'}"
    if log.diagnostics and not (versions.version or versions.library):
        said = "NCCL 2.31 or later, as it prints diagnostics"
    more = f" for {clean(versions.built_for, 20)}" if versions.built_for else ""
    if versions.driver:
        more += f", driver for CUDA {versions.driver // 1000}.{versions.driver % 1000 // 10}"
    hosts = len(log.hosts) or len({report.host for report in log.diagnostics if report.host})
    size = f" · {_count(log.lines, 'line')}, {_count(hosts, 'host')}"
    if not of_library(log):
        said, size = "no line of NCCL or RCCL", f" · {_count(log.lines, 'line')}"
    return (said, STRONG), (more, PLAIN), (size, MUTED)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def outputs(log: LogReport) -> Iterator[Text]:
    """The outputs of other tools that stand in the same text, and those that cannot be read."""
    if log.pasted is None:
        return
    places = gathered((section.tool, section.where) for section in log.pasted.sections)
    named = []
    for tool, found in places.items():
        more = f" and {len(found) - 3} more" if len(found) > 3 else ""
        named.append(f"{tool} ({', '.join(found[:3])}{more})")
    if named:
        yield _line(("· ", MUTED), (f"also read: {'; '.join(named)}", PLAIN))
    for where, why in log.pasted.broken[:MOST_ROWS]:
        yield _line(("! ", WARN), (f"{where}: {clean(why, 200)}", PLAIN))


def gaps(log: LogReport) -> Iterator[Text]:
    """The parts of the log that could not be read or kept."""
    return (_line(("! ", WARN), (text, PLAIN)) for text in _gaps(log))


def _gaps(log: LogReport) -> Iterator[str]:
    if log.unread:
        total = sum(note.count for note in log.unread)
        yield (
            f"{_count(total, 'line')} that should tell something could not be read, first "
            f"{log.unread[0].line}: {clean(log.unread[0].text, 120)}"
        )
    if log.cut:
        yield f"{_count(log.cut, 'line')} cut, or with another line written into it"
    for what, number in log.more.items():
        yield f"left out: {number} {clean(what, 60)}"
    if log.outputs_until is not None:
        yield not_looked_through(log.outputs_until)


def _measured(read: ReadLog) -> Iterator[Text]:
    """Figures of other programs: what, how much, and how that is for this hardware."""
    for shown in read.measured:
        yield _line(
            (f"{clean(shown.tool, 40)}: {clean(shown.what, 80)} ", PLAIN),
            (clean(shown.value, 60), STRONG),
            (f"  {shown.verdict}", Role(shown.verdict.ink)),
            (f": {clean(shown.against, 200)}" if shown.against else "", MUTED),
            hanging=4,
        )


def _in_one_line(comm: Communicator) -> str:
    """Its ranks, nodes and network."""
    nodes = "" if comm.nodes is None else f" on {_count(comm.nodes, 'node')}"
    least = "at least " if comm.size_seen_only else ""
    text = f"{least}{_count(comm.nranks, 'rank')}{nodes}"
    if comm.network:
        text += f", network {clean(comm.network, 60)}"
    if comm.use_gdr is not None and any(one.label.startswith("NET") for one in comm.transports):
        text += f", GDR {'on' if comm.use_gdr else 'off'}, PXN {'on' if comm.use_pxn else 'off'}"
    return text


def ranks(comm: Communicator, library: str | None = None) -> Iterator[Block]:
    """Ranks and their devices; RCCL numbers devices the way HIP and rocm-smi do."""
    runtime, driver = ("hip", "smi") if library == "rccl" else ("cuda", "nvml")
    yield Text(_in_one_line(comm))
    shown = comm.ranks[:MOST_RANKS]
    if shown:
        heads = ("rank", "host", "pid", runtime, driver, "PCI address", "state")
        yield Table(
            tuple(Column(head, right=head in ("rank", "pid", runtime, driver)) for head in heads),
            tuple(
                (
                    str(rank.rank),
                    clean(rank.host or units.UNKNOWN),
                    units.text(rank.pid),
                    units.text(rank.cuda_dev),
                    units.text(rank.nvml_dev),
                    clean(rank.bus_id or units.UNKNOWN),
                    rank.state,
                )
                for rank in shown
            ),
            tuple(CANNOT_TELL if rank.state is STARTED else None for rank in shown),
            indent=0,
        )
    yield from _more(comm.ranks, MOST_RANKS, "rank")


def _environment(log: LogReport) -> Iterator[Text]:
    """The variables that the library says it read."""
    for variable in log.environment:
        times = f", {variable.count} times" if variable.count > 1 else ""
        remark = f"  {clean(variable.remark, 200)}" if variable.remark else ""
        yield _line(
            (f"{clean(variable.name, 60)}=", Role.FLAG),
            (clean(variable.value, 200), STRONG),
            (f"  line {variable.line}{times}", MUTED),
            (remark, WARN),
            hanging=4,
        )
    if not log.environment:
        yield _muted("none shown: no NCCL_ variable was set, or SUBSYS lacks ENV")


def _transports(read: ReadLog, comm: Communicator) -> Iterator[Block]:
    """Rows send, columns receive; below, each label with the number of pairs."""
    pairs = {(pair.src, pair.dst): pair for pair in read.overlay.agreement.pairs}
    ends = sorted({end for shown in comm.transports for end in (shown.src, shown.dst)})
    if not ends:
        yield _muted("none in the log: they are set up at the first collective")
        return
    if len(ends) <= MOST_IN_MATRIX:
        failed = failed_transports(read)
        yield Rows(tuple(_matrix(comm, ends, pairs, failed)))
        if failed:
            yield _muted(f"✗ {' and '.join(sorted(failed))}: failed, as a finding above says")
    yield from _by_label(comm)
    yield from _differences(pairs.values())


def _by_label(comm: Communicator) -> Iterator[Block]:
    counts = Counter(comm.all_labels().values())
    for labels, count in counts.most_common(MOST_ROWS):
        yield _line(
            (f"{count:>4}", STRONG),
            (f" {'pair' if count == 1 else 'pairs'}  ", MUTED),
            (clean(" and ".join(labels), 160), KINDS.get(labels[0].split("/")[0], PLAIN)),
            hanging=12,
        )
    yield from _more(counts, MOST_ROWS, "label")


def _differences(pairs: Collection[PairAgreement]) -> Iterator[Block]:
    """Pairs of which the log tells nothing, or something else than was predicted."""
    silent = sum(pair.agrees is None for pair in pairs)
    if silent:
        which = "1 pair is" if silent == 1 else f"{silent} pairs are"
        text = f"{which} not in the log: nothing was sent, or other ranks' lines are elsewhere"
        yield _muted(f"· {text}", indent=3)
    different = [pair for pair in pairs if pair.agrees is False]
    for pair in different[:MOST_ROWS]:
        yield _compared_line(
            pair.agrees,
            f"{pair.src} to {pair.dst}",
            clean(" and ".join(pair.logged), 120),
            clean(" and ".join(pair.predicted), 120),
            pair.line,
        )
    yield from _more(different, MOST_ROWS, "pair")


def _more(every: Sized, shown: int, noun: str) -> Iterator[Text]:
    """How many there are beyond those that are shown."""
    if len(every) > shown:
        yield _muted(f"and {_count(len(every) - shown, noun)} more", indent=2)


def _matrix(
    comm: Communicator,
    ends: list[int],
    pairs: dict[tuple[int, int], PairAgreement],
    failed: Collection[str],
) -> Iterator[Runs]:
    yield ("      ", PLAIN), *((f"{f'{rank:>3}':<{CELL}}", MUTED) for rank in ends)
    for src in ends:
        row: list[tuple[str, Role]] = [(f"{src:>4}  ", MUTED)]
        for dst in ends:
            labels = comm.labels(src, dst)
            if src == dst or not labels:
                row.append((f"{'  X' if src == dst else '  ·':<{CELL}}", MUTED))
                continue
            kind, known = labels[0].split("/")[0][:3], pairs.get((src, dst))
            mark: Mark | None = None if known is None else Accord.of(known.agrees)
            mark = BROKEN if kind in failed else mark
            sign = f"{mark.sign if mark else ' ':<{CELL - 3}}"
            row += [(kind, KINDS.get(kind, PLAIN)), (sign, Role(mark.ink) if mark else PLAIN)]
        yield tuple(row)


def item_line(item: ComparedItem) -> Text:
    """One compared item: mark, name, the log's value, and the predicted one where it differs."""
    return _compared_line(
        item.agrees,
        clean(item.subject, 80),
        clean(item.logged, 200),
        clean(item.predicted, 200),
        item.line,
    )


def _compared_line(
    agrees: bool | None, subject: str, logged: str, predicted: str, line: int | None
) -> Text:
    runs = [(f" {subject}: ", MUTED), (logged, STRONG)]
    if not agrees:
        runs.append((f"  predicted {predicted}", BAD))
    if line:
        runs.append((f"  line {line}", MUTED))
    return Text.marked(Accord.of(agrees), *runs, hanging=4)


def _items(read: ReadLog, topic: LogTopic) -> dict[int, ComparedItem]:
    """The compared items of a topic by their lines."""
    items = read.overlay.agreement.items
    return {item.line: item for item in items if item.topic is topic and item.line}


def _with_item(item: ComparedItem | None, *runs: tuple[str, Role]) -> Text:
    """A line that the log shows, with its mark; behind it the predicted value, if it differs."""
    if item is not None and not item.agrees:
        runs = (*runs, (f"  predicted {clean(item.predicted, 120)}", BAD))
    return Text.marked(Accord.of(item.agrees if item else None), *runs, hanging=4)


def _graphs(read: ReadLog, comm: Communicator) -> Iterator[Text]:
    """The searched graphs, the channels and the orders of the rings, with marks."""
    items, all_items = _items(read, LogTopic.GRAPH), read.overlay.agreement.items
    alone = len({graph.pattern for graph in comm.graphs}) == len(comm.graphs)
    for graph in sorted(comm.graphs, key=lambda graph: (-graph.pattern, graph.ranks))[:MOST_ROWS]:
        name = PATTERNS.get(graph.pattern, f"Pattern {graph.pattern}")
        if not alone:
            name += f" of rank {', '.join(map(str, graph.ranks[:8]))}"
        yield _with_item(items.get(graph.line), (f" {name}: ", MUTED), (_graph(graph), STRONG))
    yield from _more(comm.graphs, MOST_ROWS, "graph")
    listed = [i for i in all_items if i.topic in LAYOUT]
    yield from map(item_line, listed)
    topics = {item.topic for item in all_items}
    rings = () if LogTopic.RINGS in topics else comm.rings
    yield from _rings(rings)
    counts = None if LogTopic.CHANNELS in topics else comm.counts
    if counts is not None:
        text = f"{counts.coll} channels for collectives, {counts.nvls} for NVLS, {counts.p2p} p2p"
        yield Text.marked(Accord.OPEN, (f" {text}", PLAIN))
    if not (comm.graphs or listed or rings or counts):
        yield _muted("none in the log: NCCL_DEBUG_SUBSYS lacks GRAPH")


def _rings(rings: Sequence[LoggedRing]) -> Iterator[Text]:
    for ring in rings[:MOST_RINGS]:
        order = " ".join(map(str, ring.order[:32])) + (" …" if len(ring.order) > 32 else "")
        what = f" ring of {_count(len(ring.channels), 'channel')}: "
        yield Text.marked(Accord.OPEN, (what, MUTED), (order, PLAIN), hanging=4)
    yield from _more(rings, MOST_RINGS, "ring")


def _graph(graph: LoggedGraph) -> str:
    inter = "" if graph.bw_inter == graph.bw_intra else f"/{units.figure(graph.bw_inter)}"
    same = "" if graph.same_channels else ", channels differ"
    return (
        f"{_count(graph.channels, 'channel')} × {units.figure(graph.bw_intra)}{inter} GB/s "
        f"{clean(graph.type_intra, 8)}/{clean(graph.type_inter, 8)}{same}"
    )


def _choices(read: ReadLog, comm: Communicator) -> Iterator[Text]:
    """Algorithm and protocol of each call, and whether the tuning table is as predicted."""
    items = _items(read, LogTopic.CHOICE)
    chosen = sorted(comm.choices, key=lambda choice: (choice.collective, choice.bytes))
    for choice in chosen[:MOST_ROWS]:
        first_last = choice.channels
        channels = "" if first_last is None else f" channels {first_last[0]}-{first_last[1]}"
        yield _with_item(
            items.get(choice.line),
            (f" {clean(choice.collective, 13):<13} {units.size(choice.bytes):>9} ", PLAIN),
            (f"{clean(choice.algorithm, 20)} {clean(choice.protocol, 40)}", STRONG),
            (f"{channels}, {_count(choice.count, 'call')}", MUTED),
        )
    yield from _more(chosen, MOST_ROWS, "size")
    rows = [item for item in read.overlay.agreement.items if item.topic is LogTopic.TUNING]
    if rows:
        same = sum(row.agrees for row in rows)
        text = f" tuning table: {same} of {len(rows)} rows as predicted"
        yield Text.marked(Accord.of(same == len(rows)), (text, PLAIN))
        others = [row for row in rows if not row.agrees]
        yield from map(item_line, others[:MOST_OTHERS])
        yield from _more(others, MOST_OTHERS, "row")
    if not (chosen or rows):
        yield _muted("none in the log: NCCL_DEBUG_SUBSYS lacks TUNING")


def _skipped(agreement: Agreement) -> Iterator[str]:
    yield from agreement.skipped
    if agreement.outside:
        named = ", ".join(map(str, agreement.outside[:32]))
        more = " …" if len(agreement.outside) > 32 else ""
        yield f"ranks {named}{more} are on other hosts or GPUs: outside the prediction"


def _prediction(read: ReadLog) -> Iterator[Text]:
    agreement = read.overlay.agreement
    yield _line((clean(agreement.sentence, 400), STRONG), hanging=0)
    for topic, what in PATHS:
        of = [item for item in agreement.items if item.topic is topic]
        if of:
            same = sum(item.agrees for item in of)
            yield Text.marked(Accord.of(same == len(of)), (f" {what}: {same} of {len(of)}", PLAIN))
    for item in agreement.items:
        if not item.agrees and item.topic in (LogTopic.PATH, LogTopic.NET):
            yield item_line(item)
    for reason in agreement.reasons:
        yield _line(("why: ", Role.FLAG), (clean(reason, 300), PLAIN), indent=2, hanging=5)
    for text in _skipped(agreement):
        yield _muted(f"· {clean(text, 300)}", indent=2)
    for text in read.overlay.assumptions:
        yield _line(("assumed: ", WARN), (clean(text, 300), PLAIN), indent=2, hanging=9)

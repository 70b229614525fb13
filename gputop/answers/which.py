"""The best K GPUs of a node, here and now: by wiring, NUMA, NICs and what is in use."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Annotated

import msgspec

from gputop.answers.question import Answer, NodeRequest, Option, Question
from gputop.exits import ANSWERED, CANNOT_TELL, USAGE, WARNINGS, Exit
from gputop.measuring.busy import judge
from gputop.measuring.guard import Idle, idle
from gputop.measuring.selection import hidden_note, measurable
from gputop.terminal.clean import clean
from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import diagnose
from gputop.topology.diagnosis.rules.jobs.gpu_use import called
from gputop.topology.explain.best_group import GpuGroup, Ranking, best_groups
from gputop.topology.explain.pair_summary import pair_summary
from gputop.topology.explain.start_lines import start_lines
from gputop.topology.model.english import listing, plural
from gputop.topology.model.gathered import gathered
from gputop.topology.model.page import Blank, Block, Bullets, Column, Commands, Page, Table, Text
from gputop.topology.model.readings import GpuProcess
from gputop.topology.model.record import by_address
from gputop.topology.model.severity import BROKEN, SLOW
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.model.units import figure, ranged, sentence
from gputop.topology.nccl.decide.summary import library_name
from gputop.topology.node import Node

_SIZE = "all-reduce of 1 GiB"
PROHIBITED = "prohibited"
IN_USE = "in use by "


class WhichRequest(NodeRequest, frozen=True, kw_only=True):
    """Name the best K GPUs of this node, here and now, with lines to copy.

    They are the ones for which the library's own decisions give most, then those next to one CPU
    and to NICs of their own; of several models GPUs of one, the fastest first. GPUs that are in use
    or broken are left out.
    """

    count: Annotated[int, Option("K", "how many GPUs", "K", least=1)]
    with_busy: Annotated[bool, Option("--busy", "Choose as if no GPU were in use.")] = False


class WhichGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Some GPUs. GB/s: of bus bandwidth for an all-reduce of 1 GiB, of payload for a link."""

    gpus: tuple[str, ...]
    """PCI addresses by rank."""
    names: tuple[str, ...]
    """"GPU3", by rank."""
    low_gbs: float | None
    """What the library's own decisions give; null where they cannot be predicted."""
    high_gbs: float | None
    """The same where one figure is known; over PCIe the links give a range."""
    narrowest: str
    """"P2P over 1 xGMI link between GPU0 and GPU1"."""
    link_gbs: float | None
    """What that carries one way; of one GPU its link to the host."""
    numa_nodes: tuple[int | None, ...]
    nics: tuple[str, ...]
    """Below one PCIe switch with a GPU of the group."""
    alike: int
    """How many groups are as good, this one included."""
    models: tuple[str, ...]
    """The products' names; of several, all wait for the slowest."""
    slowest_tflops: float | None
    """The data sheet's dense BF16, else FP16, of the slowest; null where it is not known."""


class GpuLeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU that was not considered."""

    gpu: str
    """PCI address."""
    name: str
    why: str
    """"in use by pid 4711, python3 of alice, 62.0 GiB"."""
    by: str
    """What several of them share: "python3 of alice", else the same as `why`."""


class WhichAnswer(Answer, frozen=True, kw_only=True, tag="gputop.which/1"):
    """The best group, the best one of another kind, what was left out, and lines to copy."""

    wanted: int
    library: str
    """"NCCL 2.28.9"; "" where nothing was predicted."""
    best: WhichGroup | None
    free: bool
    """Whether no GPU of the best group is known to be in use."""
    use_ignored: bool
    """Whether it was chosen as if no GPU were in use."""
    second: WhichGroup | None
    loses_gbs: float | None
    """What the second group gives less, by the low ends; null where one is not known."""
    sentences: tuple[str, ...]
    """The answer in words: the best group, the second one, who is left out."""
    left_out: tuple[GpuLeftOut, ...]
    not_known: tuple[str, ...]
    """What nobody told about the use of these GPUs."""
    lines: tuple[str, ...]
    """To copy into a shell."""
    notes: tuple[str, ...]
    """Why a line is not there, and what the lines take for granted."""
    possible: int
    """Groups of so many GPUs."""
    whole: bool
    """Whether all of them were compared; else those that grow around each kind of GPU."""

    @property
    def exit_code(self) -> int:
        """1 where there are not enough free GPUs."""
        enough = self.best is not None and (self.free or self.use_ignored)
        return ANSWERED if enough else WARNINGS


def answer(asked: WhichRequest) -> WhichAnswer:
    """Choose. Raises Exit where the node has fewer GPUs."""
    snapshot = asked.snapshot()
    node = Node(snapshot)
    everyone = measurable(snapshot)
    if not everyone:
        raise Exit("no GPU to choose from", CANNOT_TELL)
    if asked.count > len(everyone):
        hidden = hidden_note(snapshot)
        more = f" ({hidden})" if hidden else ""
        have = plural(len(everyone), "GPU")
        raise Exit(
            f"{asked.count} of {have} cannot be chosen: K is at most {len(everyone)}{more}", USAGE
        )
    use = _in_use(snapshot, node, everyone)
    out, ailing = _unfit(node, everyone)
    usable = [address for address in everyone if address not in out]
    in_use = dict(use.busy)
    free = [address for address in usable if address not in in_use]
    choice = free if len(free) >= asked.count and not asked.with_busy else usable
    found = best_groups(
        node,
        choice,
        asked.count,
        ailing=ailing,
        busy=() if asked.with_busy else in_use,
        unsure=_unsure(node, usable, use),
    )
    left = out if choice is usable else {**in_use, **out}
    return _answer_of(asked, node, found, left, use, len(free))


def _answer_of(
    asked: WhichRequest,
    node: Node,
    found: Ranking,
    left: Mapping[str, str],
    use: Idle,
    free: int,
) -> WhichAnswer:
    best, second = _view(node, found.best), _view(node, found.second)
    prediction = None if found.best is None else found.best.prediction
    library = "" if prediction is None else library_name(prediction)
    in_use = dict(use.busy)
    taken = () if best is None else best.gpus
    busy = {address: in_use[address] for address in taken if address in in_use}
    told = (
        []
        if best is None
        else [_head(best, library, _use_of(found.best, busy)), _behind(best, second, found, asked)]
    )
    lines: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    if found.best is not None:
        lines, notes = start_lines(_decided(node, found.best), found.best.gpus)
    snapshot = node.snapshot
    hidden = hidden_note(snapshot)
    assumed = () if prediction is None else prediction.assumptions
    return WhichAnswer(
        source=snapshot.source,
        assumptions=tuple(dict.fromkeys((*snapshot.assumptions, *assumed))),
        wanted=asked.count,
        library=library,
        best=best,
        free=not busy,
        use_ignored=asked.with_busy,
        second=second,
        loses_gbs=_loss(best, second),
        sentences=(*told, *_waiting(node, busy, asked, free, usable=best is not None)),
        left_out=_left_out(node, left),
        not_known=use.blind,
        lines=lines,
        notes=(*notes, *([hidden] if hidden else [])),
        possible=found.possible,
        whole=found.whole,
    )


# What is in use, and what cannot be used.
def _idle_then(snapshot: NodeSnapshot, gpus: Sequence[str], names: Mapping[str, str]) -> Idle:
    """The GPUs that were idle when a node was recorded."""
    # One reading is all there is: a second one of the same counts it as lasting.
    samples = [snapshot.readings.gpus] * 2
    verdicts = {address: judge(samples, (address,), names) for address in gpus}
    return Idle(
        free=tuple(address for address, one in verdicts.items() if not one.busy),
        busy=tuple((address, "; ".join(one.busy)) for address, one in verdicts.items() if one.busy),
        blind=tuple(text for one in verdicts.values() for text in one.blind),
    )


def _in_use(snapshot: NodeSnapshot, node: Node, gpus: Sequence[str]) -> Idle:
    """The GPUs that somebody uses, with who it is; of a recording by what it holds."""
    names = {address: node.devices.name(address) for address in gpus}
    found = idle(gpus, names) if snapshot.is_live else _idle_then(snapshot, gpus, names)
    known = {process.pid: process for process in snapshot.readings.processes}
    busy = []
    for address, why in found.busy:
        who = [called(process, known) for process in _users(node, address)]
        busy.append((address, f"{IN_USE}{listing(who, 2)}" if who else why))
    return msgspec.structs.replace(found, busy=tuple(busy))


def _users(node: Node, address: str) -> tuple[GpuProcess, ...]:
    """The processes that compute on a GPU."""
    reading = node.reading(address)
    processes = () if reading is None else reading.processes or ()
    return tuple(one for one in processes if one.kind != "graphics" and one.memory_bytes != 0)


def _unsure(node: Node, gpus: Sequence[str], use: Idle) -> set[str]:
    """GPUs of which something about their use was not told."""
    return {
        address
        for address in gpus
        if any(text.startswith(f"{node.devices.name(address)}:") for text in use.blind)
    }


def _shut(node: Node, address: str) -> str:
    """Why a GPU takes no job as it is set up."""
    gpu, reading = node.devices.gpus[address], node.reading(address)
    if reading is not None and reading.lost:
        return "the driver has lost it"
    if gpu.mig_enabled:
        return "MIG is on: a job gets a part of it"
    return "its compute mode is prohibited" if gpu.compute_mode == PROHIBITED else ""


def _unfit(node: Node, gpus: Sequence[str]) -> tuple[dict[str, str], set[str]]:
    """GPUs that cannot be used, with the reason, and those with a fault that slows them down."""
    out = {address: why for address in gpus if (why := _shut(node, address))}
    ailing: set[str] = set()
    whole = node if node.decided else node.without_prediction("a choice of GPUs needs none")
    for one in diagnose(Case(whole)).findings:
        alone = len(one.devices) == 1 and one.devices[0] in gpus
        if alone and one.severity == BROKEN:
            out.setdefault(one.devices[0], f"check finds: {one.title} ({one.id})")
        elif alone and one.severity == SLOW:
            ailing.add(one.devices[0])
    return out, ailing


# The groups in words.
def _decided(node: Node, group: GpuGroup) -> Node:
    """The node with what the library decides for this group."""
    if group.prediction is None:
        return node.without_prediction("nothing is predicted of these GPUs")
    return node.with_prediction(group.prediction)


def _view(node: Node, group: GpuGroup | None) -> WhichGroup | None:
    if group is None:
        return None
    narrowest, carried = "", group.link_gbs
    if group.narrowest is not None:
        pair = pair_summary(_decided(node, group), *group.narrowest)
        pair_of = f" between {node.devices.names(group.narrowest)}" * (len(group.gpus) > 2)
        narrowest = f"{pair.head}{pair_of}"
        carried = pair.link_gbs or carried
    return WhichGroup(
        gpus=group.gpus,
        names=tuple(node.devices.name(gpu) for gpu in group.gpus),
        low_gbs=group.low_gbs,
        high_gbs=group.high_gbs,
        narrowest=narrowest,
        link_gbs=carried,
        numa_nodes=group.numa_nodes,
        nics=group.nics,
        alike=group.alike,
        models=group.models,
        slowest_tflops=group.slowest_tflops or None,
    )


def _loss(best: WhichGroup | None, second: WhichGroup | None) -> float | None:
    if best is None or second is None or best.low_gbs is None or second.low_gbs is None:
        return None
    return max(best.low_gbs - second.low_gbs, 0.0)


def _use_of(group: GpuGroup | None, busy: Collection[str]) -> str:
    """What is known of the use of a group that is free."""
    if group is None or busy:
        return ""
    return "whether they are in use is not known" if group.unsure else "none in use"


def _head(best: WhichGroup, library: str, use: str) -> str:
    """The best group and why, in one sentence."""
    why = (_mixed(best), _rate(best, library), _ways(best), _place(best), use)
    return f"{_names(best)}: {'; '.join(filter(None, why))}"


def _mixed(group: WhichGroup) -> str:
    """What several models in one group mean."""
    if len(group.models) < 2:
        return ""
    names = listing([clean(name, 60) or "a GPU without a name" for name in group.models])
    return f"{len(group.models)} models, {names}, where all wait for the slowest"


def _behind(
    best: WhichGroup, second: WhichGroup | None, found: Ranking, asked: WhichRequest
) -> str:
    """The second best group and what it loses, in one sentence or two."""
    others = best.alike - 1
    verb = "is" if others == 1 else "are"
    same = f". {plural(others, 'other group')} {verb} as good as the best" if others else ""
    if second is not None:
        return f"Second best, {_names(second)}: {_less(best, second)}{same}"
    if found.possible == 1:
        return f"There is no other group of {asked.count} to choose"
    kind = "joined alike" if found.whole else "as good, of those that were compared"
    return f"Every group of {asked.count} to choose is {kind}{same}"


def _waiting(
    node: Node, busy: Mapping[str, str], asked: WhichRequest, free: int, *, usable: bool
) -> Iterator[str]:
    """Who is in the way where the group is not to be had now."""
    if not usable:
        yield f"No {plural(asked.count, 'GPU')} of one vendor can be used together here"
    elif busy:
        several = _together(_left_out(node, busy))
        ready = f"{plural(free, 'GPU')} that can be used {_is(free)} free"
        few = "" if asked.with_busy else f", and {asked.count} were asked for"
        yield f"Not free now: {several}; {ready}{few}"


def _is(count: int) -> str:
    return "is" if count == 1 else "are"


def _left_out(node: Node, left: Mapping[str, str]) -> tuple[GpuLeftOut, ...]:
    known = {process.pid: process for process in node.snapshot.readings.processes}
    found = []
    for address in by_address(node.machine.gpus):
        if address in left:
            why = left[address]
            users = _users(node, address) if why.startswith(IN_USE) else ()
            by = {
                called(msgspec.structs.replace(one, memory_bytes=None), known).partition(", ")[2]
                for one in users
            }
            shared = listing(sorted(filter(None, by))) or why
            name = node.devices.name(address)
            found.append(GpuLeftOut(gpu=address, name=name, why=why, by=shared))
    return tuple(found)


def _together(left: Sequence[GpuLeftOut]) -> str:
    """GPUs by what they share: "GPU0-5 (python3 of alice)"."""
    of = gathered((one.by, one.name) for one in left)
    return "; ".join(f"{ranged(names)} ({by})" for by, names in of.items())


def _names(group: WhichGroup) -> str:
    ordered = list(group.names) == sorted(group.names, key=_natural)
    return ranged(group.names) if ordered else " ".join(group.names)


def _natural(name: str) -> tuple[str, int]:
    stem = name.rstrip("0123456789")
    return stem, int(name[len(stem) :] or 0)


def _rate(group: WhichGroup, library: str) -> str:
    """What the library gives: "by NCCL 2.19.3's own model 79.9 GB/s bus"."""
    if group.low_gbs is None or group.high_gbs is None:
        return ""
    if group.low_gbs == group.high_gbs:
        return f"by {library}'s own model {figure(group.low_gbs)} GB/s bus ({_SIZE})"
    return f"over PCIe {_span(group)} GB/s bus ({_SIZE})"


def _span(group: WhichGroup) -> str:
    low, high = figure(group.low_gbs), figure(group.high_gbs)
    return low if low == high else f"{low} to {high}"


def _ways(group: WhichGroup) -> str:
    if group.link_gbs is None:
        return "what its links carry is not known"
    carried = f"{figure(group.link_gbs)} GB/s one way"
    if len(group.gpus) == 1:
        return f"{carried} to the host"
    return f"{'' if len(group.gpus) == 2 else 'at least '}{carried}, {group.narrowest}"


def _place(group: WhichGroup) -> str:
    nodes = [str(node) for node in group.numa_nodes if node is not None]
    place = f"NUMA node{'s' * (len(nodes) > 1)} {listing(nodes)}" if nodes else ""
    if len(nodes) < len(group.numa_nodes):
        place = "NUMA node not known"
    return f"{place}, {ranged(group.nics)} beside them" if group.nics else place


def _less(best: WhichGroup, second: WhichGroup) -> str:
    """What the second group loses, and where."""
    lost = _loss(best, second)
    if second.models != best.models:
        slower = (second.slowest_tflops or 0) < (best.slowest_tflops or 0)
        which = _mixed(second) or f"{'the slower ' * slower}{clean(second.models[0], 60)}"
        return f"{which}, {_span(second)} GB/s bus" if second.low_gbs is not None else which
    told = [f"{_span(second)} GB/s bus"] if second.low_gbs is not None else []
    if lost and best.low_gbs and figure(best.low_gbs) != figure(second.low_gbs):
        share = f"{100 * lost / best.low_gbs:.0f} %"
        least = "at the least " if best.low_gbs != best.high_gbs else ""
        told.append(f"{least}{figure(lost)} less ({share})")
        return ", ".join(filter(None, (*told, second.narrowest)))
    told.append("nothing less" if told else "no figure tells them apart")
    narrow, wide = second.link_gbs, best.link_gbs
    if narrow is not None and wide is not None and narrow < wide:
        told.append(f"but {figure(narrow)} GB/s at its narrowest")
    elif len(second.numa_nodes) > len(best.numa_nodes):
        told.append(f"but on {_place(second).partition(',')[0]}")
    elif len(second.nics) < len(best.nics):
        told.append(
            f"but {plural(len(second.nics), 'NIC')} beside them in place of {len(best.nics)}"
        )
    return ", ".join(told)


def page(found: WhichAnswer) -> Page:
    """The answer, who is left out, the lines to copy, and what was taken for granted."""
    blocks: list[Block] = [Text(sentence(text)) for text in found.sentences]
    if found.left_out:
        blocks.append(Text(sentence(f"left out: {_together(found.left_out)}")))
    blocks += [Text(sentence(text)) for text in _unknown(found.not_known)]
    if found.lines:
        blocks += [Blank(), Text("To copy:"), Commands(found.lines)]
    if found.best is not None:
        rows = tuple(
            (str(rank), name, gpu)
            for rank, (name, gpu) in enumerate(zip(found.best.names, found.best.gpus, strict=True))
        )
        columns = (Column("rank", right=True), Column("GPU"), Column("address"))
        blocks += [Blank(), Table(columns, rows)]
    if found.notes:
        blocks += [Blank(), Bullets(found.notes)]
    if not found.whole:
        blocks.append(Text(f"{found.possible:,} groups are possible; a part of them was compared."))
    return Page(title="which", blocks=tuple(blocks))


def _unknown(texts: Sequence[str]) -> Iterator[str]:
    """What nobody told, the GPUs of one reason together."""
    of: dict[str, list[str]] = {}
    for text in texts:
        name, colon, why = text.partition(": ")
        of.setdefault(why if colon else text, []).extend([name] * bool(colon))
    for why, names in of.items():
        yield f"not known whether {ranged(names)} {_is(len(names))} in use: {why}" if names else why


QUESTION = Question(name="which", request=WhichRequest, answer=answer, page=page)

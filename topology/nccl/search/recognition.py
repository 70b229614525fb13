"""Which of the nodes that RCCL knows a system is (its graph/rome_models.cc).

The order of the attempts is part of the outcome: the first permutation that fits names the GPUs.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import permutations
from typing import NamedTuple

from ...model.errors import GputopError
from ..nodes import CPU, GPU, NET, CpuArch, CpuVendor, System
from ..versions import Version
from .rccl_models import RcclModel, RcclShape, models, shape_of

MOST_GPUS = 16
"""GPUs of the largest model."""
MOST_STEPS = 300_000
"""Permutations looked at; a real node takes some thousand, a file made to be slow many more."""


class Match(NamedTuple):
    """A model, and the devices that stand for its GPUs and NICs."""

    model: RcclModel
    gpus: tuple[int, ...]
    """For each GPU of the model the place of ours in the order of device numbers."""
    nets: tuple[int, ...] = ()
    """Number of the NIC for each NIC of the model; empty where there is none or one."""
    all_to_all: bool = False
    """Recognised as eight GPUs of which each is linked with each."""


class _TooManyError(GputopError):
    """No real node takes so long."""


class _Steps:
    def __init__(self) -> None:
        self.left = MOST_STEPS

    def take(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise _TooManyError


def match(system: System, version: Version) -> Match | None:
    """The model that a system is, in RCCL's order of attempts; None when it knows none like it."""
    count = len(system.nodes[GPU])
    if not 1 < count <= MOST_GPUS or not system.nodes[CPU] or len(system.nodes[NET]) > 32:
        return None
    shape, steps = shape_of(system, version), _Steps()
    try:
        for attempt in (_all_to_all, _rome, _blocks, _hives):
            found = attempt(system, shape, steps)
            if found is not None:
                return found
    except _TooManyError:
        pass
    return None


def _on_rome(system: System) -> bool:
    cpu = system.nodes[CPU][0]
    return cpu.arch == CpuArch.X86 and cpu.vendor == CpuVendor.AMD and cpu.model == 1


def _same_size(model: RcclModel, shape: RcclShape) -> bool:
    return (len(model.gpu_ids), len(model.nic_numa), model.most_links) == (
        len(shape.gpu_ids),
        len(shape.nic_numa),
        shape.most_links,
    )


def _width(rows: tuple[tuple[int, ...], ...]) -> int:
    """Links between any two GPUs when that is one number everywhere, else 0."""
    counts = {rows[i][j] for i in range(len(rows)) for j in range(len(rows)) if i != j}
    return counts.pop() if len(counts) == 1 else 0


def _rows(model: RcclModel) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(int(digit) for digit in row) for row in model.links)


def _all_to_all(system: System, shape: RcclShape, steps: _Steps) -> Match | None:
    """parseA2a8P: eight GPUs, each with each, four on each of two NUMA nodes; any CPU."""
    if len(shape.gpu_ids) != 8 or shape.cpus != 2 or not _width(shape.links):
        return None
    known = [model for model in models() if _width(_rows(model)) == 1]
    found = _by_blocks(shape, known, steps, blocks=2)
    return None if found is None else found._replace(all_to_all=True)


def _blocks(system: System, shape: RcclShape, steps: _Steps) -> Match | None:
    """parse1H16P: sixteen GPUs, four on each of four NUMA nodes."""
    if len(shape.gpu_ids) != 16 or shape.cpus != 4 or not _on_rome(system):
        return None
    return _by_blocks(shape, models(), steps, blocks=4)


def _by_blocks(
    shape: RcclShape, known: Sequence[RcclModel], steps: _Steps, *, blocks: int
) -> Match | None:
    homes = [[i for i, numa in enumerate(shape.gpu_numa) if numa == j] for j in range(blocks)]
    for model in known:
        alike = _same_size(model, shape) and model.cpus == shape.cpus and model.near == shape.near
        sizes = [model.gpu_numa.count(j) for j in range(blocks)]
        if not alike or sizes != [4] * blocks or [len(home) for home in homes] != sizes:
            continue
        rows = _rows(model)
        for gpus in _block_orders(homes, rows, shape.links, (), steps):
            nets = _nets(model, shape, gpus, steps, ignore_numa=False)
            if nets is not None:
                return Match(model, gpus, nets)
    return None


def _block_orders(
    homes: list[list[int]],
    model_links: tuple[tuple[int, ...], ...],
    ours: tuple[tuple[int, ...], ...],
    chosen: tuple[int, ...],
    steps: _Steps,
) -> Iterator[tuple[int, ...]]:
    if not homes:
        yield chosen
        return
    for order in permutations(homes[0]):
        steps.take()
        gpus = chosen + order
        size = len(gpus)
        if all(
            model_links[i][j] == ours[gpus[i]][gpus[j]]
            and model_links[j][i] == ours[gpus[j]][gpus[i]]
            for i in range(len(chosen), size)
            for j in range(size)
        ):
            yield from _block_orders(homes[1:], model_links, ours, gpus, steps)


def _rome(system: System, shape: RcclShape, steps: _Steps) -> Match | None:
    """parseRome4P2H: up to eight GPUs, mostly on AMD Rome and later."""
    if len(shape.gpu_ids) > 8:
        return None
    for model in models():
        any_cpu, any_numa = model.has("noCpuCheck"), model.has("disableNumaMatching")
        if (not any_cpu and not _on_rome(system)) or not _same_size(model, shape):
            continue
        if not any_numa and (model.cpus, model.near) != (shape.cpus, shape.near):
            continue
        domains = shape.directly and not any_cpu
        gpus = _gpus(model, shape, steps, domains=domains, ignore_numa=any_numa)
        if gpus is None:
            continue
        several = len(shape.nic_numa) % len(gpus) == 0 and len(shape.nic_numa) > len(gpus)
        if several:
            nets = _nets_in_turn(model, shape, gpus, ignore_numa=any_numa)
            return None if nets is None else Match(model, gpus, nets)
        nets = _nets(model, shape, gpus, steps, ignore_numa=any_numa)
        if nets is not None:
            return Match(model, gpus, nets)
    return None


def _hives(system: System, shape: RcclShape, steps: _Steps) -> Match | None:
    """parse4H4P: four hives of four GPUs, and a NIC at PIX from each GPU.

    RCCL 2.21 writes PIX as the number 3, versions in whose list C2C has that number by its name.
    """
    if not _on_rome(system) or len(shape.gpu_ids) != 16 or len(shape.nic_numa) != 16:
        return None
    hives: list[list[int]] = []
    for gpu in range(16):
        home = next((hive for hive in hives if shape.links[gpu][hive[0]]), None)
        if home is None:
            hives.append([gpu])
        else:
            home.append(gpu)
    if [len(hive) for hive in hives] != [4] * 4:
        return None
    gpus = [gpu for hive in hives for gpu in hive]
    beside = [
        next((i for i, gpu in enumerate(gpus) if row[gpu] == "PIX"), None) for row in shape.gdr
    ]
    nets = {place: net for net, place in enumerate(beside)}
    if None in nets or len(nets) != 16:
        return None
    model = next(known for known in models() if known.name == "rome_model_68")
    return Match(model, tuple(gpus), tuple(nets[place] for place in range(16)))


def _permuted(
    count: int, steps: _Steps, fits: Callable[[list[int], int], bool]
) -> tuple[int, ...] | None:
    """The first permutation that fits, by exchanges from (2, 3, ..., 0, 1), as RCCL tries them."""
    order = [(i + 2) % count for i in range(count)]

    def place(at: int) -> bool:
        if at == count:
            return True
        for i in range(at, count):
            order[at], order[i] = order[i], order[at]
            steps.take()
            if fits(order, at) and place(at + 1):
                return True
            order[at], order[i] = order[i], order[at]
        return False

    return tuple(order) if place(0) else None


def _gpus(
    model: RcclModel, shape: RcclShape, steps: _Steps, *, domains: bool, ignore_numa: bool
) -> tuple[int, ...] | None:
    """permuteGpuIds: NUMA nodes, xGMI links, and the order of bus ids must agree."""
    rows, theirs, ours = _rows(model), model.gpu_ids, shape.gpu_ids

    def fits(order: list[int], at: int) -> bool:
        mine = order[at]
        if not ignore_numa and model.gpu_numa[at] != shape.gpu_numa[mine]:
            return False
        for before in range(at):
            other = order[before]
            if rows[at][before] != shape.links[mine][other]:
                return False
            if rows[before][at] != shape.links[other][mine]:
                return False
            if (theirs[at] - theirs[before]) * (ours[mine] - ours[other]) < 0:
                return False
            if domains and _group(theirs[at], theirs[before]) != _group(ours[mine], ours[other]):
                return False
        return True

    return _permuted(len(ours), steps, fits)


def _group(one: int, other: int) -> bool:
    """Whether two bus ids lie in the same PCI domain's group of buses ("NBIO")."""
    return one & 0xF0000 == other & 0xF0000


NEAR = {"PIX", "PXB"}


def _net_fits(
    model: RcclModel,
    shape: RcclShape,
    gpus: tuple[int, ...],
    at: int,
    net: int,
    *,
    alike: bool = False,
) -> bool:
    theirs = model.gdr[at].split()
    ours = [shape.gdr[net][gpu] for gpu in gpus]
    # PXN replaces the type that the path had before.
    return all(
        here in ("PXN", there) or (alike and {here, there} == NEAR)
        for here, there in zip(ours, theirs, strict=True)
    )


def _nets(
    model: RcclModel, shape: RcclShape, gpus: tuple[int, ...], steps: _Steps, *, ignore_numa: bool
) -> tuple[int, ...] | None:
    """permuteNetIds; () where there are no two NICs to tell apart, None when none fits."""
    if len(shape.nic_numa) < 2:
        return ()

    def fits(order: list[int], at: int) -> bool:
        if not ignore_numa and model.nic_numa[at] != shape.nic_numa[order[at]]:
            return False
        return _net_fits(model, shape, gpus, at, order[at], alike=shape.near_alike)

    return _permuted(len(shape.nic_numa), steps, fits)


def _nets_in_turn(
    model: RcclModel, shape: RcclShape, gpus: tuple[int, ...], *, ignore_numa: bool
) -> tuple[int, ...] | None:
    """With several NICs for each GPU, each takes the first one left that fits."""
    found: list[int] = []
    for at in range(len(shape.nic_numa)):
        for net in range(len(shape.nic_numa)):
            same = ignore_numa or model.nic_numa[at] == shape.nic_numa[net]
            if net not in found and same and _net_fits(model, shape, gpus, at, net):
                found.append(net)
                break
        else:
            return None
    return tuple(found)

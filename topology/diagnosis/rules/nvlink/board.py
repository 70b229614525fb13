"""Boards of which the node shows some GPUs only."""

from collections.abc import Iterator
from typing import Any

from ....hardware.specs import WIRED, Sku, table
from ....hardware.vendors import NVIDIA
from ....model.finding import Finding
from ....model.machine import Gpu, PciKind
from ....model.severity import CANNOT_TELL, NOTICE
from ...case import Case
from ...rule import Found, Rule, needed
from .down import FEWEST, lacking

_BOARD = 8
"""GPUs of a board with NVSwitches, or of a full mesh; two of them make a DGX-2."""
_HALF = 4
"""NVIDIA's boards of so many have no NVSwitch."""
_PAIR = 2
"""Two superchips beside each other, without an NVSwitch."""
_TELLING = 6
"""A model of a host with fewer letters and digits is part of many names."""


def _check(case: Case) -> Found:
    """A node that has all its PCI devices in sight is held against the boards of its models.

    A guest, a container or a job may have been given some of a board.
    """
    said = case.machine.relations or case.machine.pairs
    bare = _bare(case)
    whole = not any(gpu.partition for gpu in case.gpus)
    if bare:
        needed(case.machine.gpus)
    elif case.machine.pci or not said or not whole:
        return None
    found = [*(_of_models(case) if bare else ()), *(_of_links(case) if whole and said else ())]
    return found[:1]


def _bare(case: Case) -> bool:
    """Whether nobody can have been given some of a board: on the node, or in what it saved.

    The CPUs of Arm do not say whether this is a guest, NVIDIA's driver does.
    """
    unsaid = case.in_vm is None and case.host.architecture == "aarch64"
    guest = case.in_vm is not False and not (
        unsaid and all(gpu.virtualization == "none" for gpu in case.machine.gpus)
    )
    return not guest and not case.may_hide_devices


def _of_models(case: Case) -> Iterator[Finding]:
    models: dict[str, tuple[Sku, list[Gpu]]] = {}
    for gpu in case.machine.gpus:
        if (sku := case.sku(gpu)) is not None:
            models.setdefault(sku.name, (sku, []))[1].append(gpu)
    for sku, gpus in models.values():
        count = len({gpu.parent or gpu.address for gpu in gpus})
        sizes = _sizes(case, sku, gpus)
        if sizes and count not in sizes:
            several = " or ".join(map(str, sorted(sizes)))
            yield _finding(
                case, gpus, f"{count} {sku.name} here, and boards of this model have {several}"
            )
            continue
        here = {gpu.address for gpu in case.machine.gpus}
        ends = {link.remote_address for gpu in gpus for link in gpu.nvlinks_up if link.to_gpu}
        if away := sorted(filter(None, ends - here)):
            yield _finding(case, gpus, f"NVLinks lead to GPUs that are not here: {', '.join(away)}")
        slots = sorted({gpu.module_id for gpu in gpus if gpu.module_id is not None})
        if not sizes and 1 < len(slots) == len(gpus) <= slots[-1] - slots[0]:
            holes = sorted({*range(slots[0], slots[-1])} - {*slots})
            yield _finding(case, gpus, f"slots of the board without a GPU: {str(holes)[1:-1]}")


def _sizes(case: Case, sku: Sku, gpus: list[Gpu]) -> set[int]:
    """How many GPUs of a model its known boards and nodes have; none where nothing tells."""
    nodes = {
        name: facts
        for name, facts in table("nodes")["node"].items()
        if sku.name in ([facts["sku"]] if isinstance(facts["sku"], str) else facts["sku"])
    }
    host = _plain(case.host.dmi_product or "")
    known = {facts["gpus"] for name, facts in nodes.items() if _is_host(host, name, facts)}
    if known or sku.fabric not in WIRED or _ordered_at_will(gpus):
        return known
    return _of_boards({facts["gpus"] for facts in nodes.values()}, sku, _has_switches(case, gpus))


def _is_host(host: str, name: str, facts: dict[str, Any]) -> bool:
    """Whether a model of a host, without signs and blanks, is one of this entry's names."""
    names = (name, *facts.get("aliases", ()))
    return len(host) >= _TELLING and any(host in _plain(other) for other in names)


def _ordered_at_will(gpus: list[Gpu]) -> bool:
    """Whether links lead to POWER CPUs: each socket has as many GPUs as were ordered."""
    return any(link.remote_kind == "ibmnpu" for gpu in gpus for link in gpu.nvlinks)


def _has_switches(case: Case, gpus: list[Gpu]) -> bool:
    return any(device.kind is PciKind.NVSWITCH for device in case.machine.pci) or any(
        link.to_switch for gpu in gpus for link in gpu.nvlinks
    )


def _of_boards(sizes: set[int], sku: Sku, switches: bool) -> set[int]:
    """The sizes of boards, from those of the nodes that are known with this model."""
    if not sizes and sku.world_size == _BOARD and "world_size" not in sku.unconfirmed:
        sizes = {_BOARD}
    if switches and max(sizes, default=0) >= _BOARD:
        return sizes - {_HALF} | {_BOARD}
    if 1 in sizes:
        return set()  # superchips: as many as somebody puts side by side
    if not sizes or sku.vendor != NVIDIA.name:
        return sizes
    return sizes | {_HALF} | ({_PAIR} if sku.c2c_gbs and not switches else set())


def _plain(name: str) -> str:
    return "".join(filter(str.isalnum, name.lower()))


def _of_links(case: Case) -> Iterator[Finding]:
    islands = case.node.islands
    size = len(islands[0]) if len(islands) == 1 else 0
    more = lacking(size)
    if size == len(case.gpus) and size >= FEWEST and more:
        yield _finding(
            case,
            list(case.gpus),
            f"{size} GPUs are joined by {case.words.link}, and boards of this kind have "
            f"{size + more}",
        )


def _finding(case: Case, gpus: list[Gpu], title: str) -> Finding:
    return INCOMPLETE.finding(
        CANNOT_TELL if case.on_node or _bare(case) else NOTICE,
        title,
        devices=gpus,
        evidence=[("GPUs of the board", case.names(gpus), case.source)],
        impact="Others of the board are not "
        f"{'here' if case.on_node else 'in this text'}: lost, taken out, or not given to this "
        "container or guest.",
        fix=[
            "Count the GPUs on PCI. $ lspci | grep -iE '3D|accelerator'",
            "Look for what the driver reported. # dmesg",
        ],
    )


INCOMPLETE = Rule(
    id="board-incomplete",
    family="D12",
    title="a number of GPUs that no known board has",
    evidence="relations of all pairs of GPUs, and of a whole node their models, slots and links",
    disproof="as many GPUs in `lspci` as here, and a board of its maker that has so many",
    sources=("NVIDIA HGX and DGX user guides: boards of 4, 8 and 16",),
    check=_check,
    implied_by=("gpu-lost", "gpu-without-driver", "amd-few-gpus"),
)
RULES = (INCOMPLETE,)

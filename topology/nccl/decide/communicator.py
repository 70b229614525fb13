"""Which GPUs take part, and their ranks."""

import re
from collections.abc import Sequence

import msgspec

from ...hardware.vendors import AMD
from ...model.element import Element
from ...model.machine import Gpu, Machine
from ..order import hip_order, leading
from ..settings import Settings
from ..system.ranks import Place, gpus_of, ranks_of
from ..xml.detect import bus_id

BUS = re.compile(r"(?:([0-9a-f]{1,8}):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})\.([0-9a-f])")


class NodeCommunicator(msgspec.Struct, frozen=True, kw_only=True):
    """The ranks of one communicator on one node."""

    ranks: dict[Place, int]
    """Place of each GPU that takes part -> rank."""
    addresses: dict[str, str]
    """Bus id as the XML writes it -> address as the node has it."""


def address_of(bus: str) -> str:
    """A bus id as the kernel writes it: "0000:00:06.0"; other text stays."""
    match = BUS.fullmatch(bus.lower())
    if match is None:
        return bus.lower()
    domain, number, device, function = (int(part or "0", 16) for part in match.groups())
    return f"{domain:04x}:{number:02x}:{device:02x}.{function:x}"


def chosen(
    machine: Machine, settings: Settings, gpus: Sequence[str] | None, assumptions: list[str]
) -> tuple[str, ...] | None:
    """The GPUs named by PCI address, or those that CUDA_VISIBLE_DEVICES leaves; None for all.

    The order in which they are named is that of their ranks. Adds to `assumptions`.
    """
    if gpus is None:
        left = left_visible(machine, settings, assumptions)
        return None if left is None else tuple(dict.fromkeys(left))
    known = {gpu.address for gpu in machine.gpus}
    return tuple(dict.fromkeys(gpu if gpu in known else address_of(gpu) for gpu in gpus))


def communicator(
    root: Element, machine: Machine, gpus: Sequence[str] | None = None
) -> NodeCommunicator:
    """The ranks of a topology: all of them, or the chosen GPUs in that order."""
    given = {bus_id(gpu): gpu.address for gpu in machine.gpus}
    found = {bus: address_of(bus) for (_, bus), _ in gpus_of(root)}
    addresses = {bus: given.get(address, address) for bus, address in found.items()}
    ranks = ranks_of(root)
    if gpus is not None:
        turns = {address: turn for turn, address in enumerate(gpus)}
        hosts = list(dict.fromkeys(host for host, _ in sorted(ranks, key=ranks.__getitem__)))
        kept = [place for place in ranks if addresses[place[1]] in turns]
        kept.sort(key=lambda place: (hosts.index(place[0]), turns[addresses[place[1]]]))
        ranks = {place: rank for rank, place in enumerate(kept)}
    return NodeCommunicator(ranks=ranks, addresses=addresses)


def left_visible(machine: Machine, settings: Settings, assumptions: list[str]) -> list[str] | None:
    """Addresses that lists of visible devices leave, in their order; None when none is set.

    Adds to `assumptions` what it takes for granted.
    """
    vendor = leading(machine.gpus)
    left = [gpu for gpu in machine.gpus if gpu.vendor == vendor.id]
    names, order = ["CUDA_VISIBLE_DEVICES"], "in PCI order; with several models CUDA's own order"
    if vendor is AMD:
        # ROCr filters first and HIP counts what is left; CUDA's name counts where HIP's is not set.
        own = "HIP_VISIBLE_DEVICES"
        names = ["ROCR_VISIBLE_DEVICES", own if settings.text(own) else "CUDA_VISIBLE_DEVICES"]
        left, order = hip_order(left), "by KFD node; with several models HIP's own order"
    said = False
    for name in names:
        text = settings.text(name)
        if text is None or not left:
            continue
        if len({gpu.name for gpu in left}) > 1:
            assumptions.append(f"{name} counts GPUs {order} may differ")
        left, said = _listed(text, left), True
    return [gpu.address for gpu in left] if said else None


def _listed(text: str, gpus: Sequence[Gpu]) -> list[Gpu]:
    """GPUs of a list in its order; the first entry that names none ends it, as in CUDA."""
    found: dict[str, None] = {}
    for word in text.split(","):
        word = word.strip()
        if word.isascii() and word.isdigit():
            index = int(word[:9])
            if index >= len(gpus) or gpus[index].address in found:
                break
            found[gpus[index].address] = None
            continue
        match = next((g for g in gpus if word and _is_named(word.lower(), g)), None)
        if match is None or (match.address in found and not word.startswith("MIG-")):
            break
        found[match.address] = None
    return [gpu for address in found for gpu in gpus if gpu.address == address]


def _is_named(word: str, gpu: Gpu) -> bool:
    """Whether a list means a GPU or one of its MIG instances, by the start of its UUID.

    Drivers before R470 write an instance as MIG-, the UUID of its GPU, and two numbers.
    """
    uuids = [gpu.uuid, *(instance.uuid for instance in gpu.mig_instances)]
    if word.startswith("mig-gpu-"):
        return word[len("mig-") :].partition("/")[0] == (gpu.uuid or "").lower()
    return any(uuid and uuid.lower().startswith(word) for uuid in uuids)

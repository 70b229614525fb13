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
    assumptions: tuple[str, ...] = ()


def address_of(bus: str) -> str:
    """A bus id as the kernel writes it: "0000:00:06.0"; other text stays."""
    match = BUS.fullmatch(bus.lower())
    if match is None:
        return bus.lower()
    domain, number, device, function = (int(part or "0", 16) for part in match.groups())
    return f"{domain:04x}:{number:02x}:{device:02x}.{function:x}"


def communicator(
    root: Element, machine: Machine, settings: Settings, gpus: Sequence[str] | None = None
) -> NodeCommunicator:
    """Choose the GPUs named by PCI address, or all that CUDA_VISIBLE_DEVICES leaves visible.

    A selection is numbered anew in the order of the ranks it had.
    """
    given = {bus_id(gpu): gpu.address for gpu in machine.gpus}
    found = {bus: address_of(bus) for (_, bus), _ in gpus_of(root)}
    addresses = {bus: given.get(address, address) for bus, address in found.items()}
    ranks = ranks_of(root)
    assumptions: list[str] = []
    known = set(given.values())
    chosen = None
    if gpus is not None:
        chosen = {gpu if gpu in known else address_of(gpu) for gpu in gpus}
    if chosen is None:
        chosen = left_visible(machine, settings, assumptions)
    if chosen is not None:
        kept = [place for place, _ in sorted(ranks.items(), key=lambda item: item[1])]
        kept = [place for place in kept if addresses[place[1]] in chosen]
        ranks = {place: rank for rank, place in enumerate(kept)}
    return NodeCommunicator(ranks=ranks, addresses=addresses, assumptions=tuple(assumptions))


def left_visible(machine: Machine, settings: Settings, assumptions: list[str]) -> set[str] | None:
    """Addresses that lists of visible devices leave; None when none is set.

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
        kept = _listed(text, left)
        left, said = [gpu for gpu in left if gpu.address in kept], True
    return {gpu.address for gpu in left} if said else None


def _listed(text: str, gpus: Sequence[Gpu]) -> set[str]:
    """GPUs of a list; the first entry that names none ends it, as in CUDA."""
    found: list[str] = []
    for word in text.split(","):
        word = word.strip()
        if word.isascii() and word.isdigit():
            index = int(word[:9])
            if index >= len(gpus) or gpus[index].address in found:
                break
            found.append(gpus[index].address)
            continue
        match = next((g for g in gpus if word and _is_named(word.lower(), g)), None)
        if match is None or (match.address in found and not word.startswith("MIG-")):
            break
        found.append(match.address)
    return set(found)


def _is_named(word: str, gpu: Gpu) -> bool:
    """Whether a list means a GPU or one of its MIG instances, by the start of its UUID.

    Drivers before R470 write an instance as MIG-, the UUID of its GPU, and two numbers.
    """
    uuids = [gpu.uuid, *(instance.uuid for instance in gpu.mig_instances)]
    if word.startswith("mig-gpu-"):
        return word[len("mig-") :].partition("/")[0] == (gpu.uuid or "").lower()
    return any(uuid and uuid.lower().startswith(word) for uuid in uuids)

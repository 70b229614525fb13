"""GPUs that no driver serves to this process, so that no communicator can have them."""

from __future__ import annotations

import msgspec

from ...model.machine import Machine
from ...model.snapshot import NodeSnapshot
from ...sources.collect import ONLY_PCI


def unserved_gpus(machine: Machine) -> tuple[frozenset[str], str | None]:
    """Addresses of GPUs that only PCI shows while a library answered for their siblings.

    A container or a batch job was not given them, or they do not work. Also a remark that says
    so. None are meant where no library answered for any GPU of the vendor, as in a copied /sys.
    """
    if machine.nccl_topology is not None:
        return frozenset(), None
    served = {gpu.vendor for gpu in machine.gpus if gpu.why("uuid") != ONLY_PCI}
    found = sorted(
        gpu.address for gpu in machine.gpus if gpu.vendor in served and gpu.why("uuid") == ONLY_PCI
    )
    if not found:
        return frozenset(), None
    named = ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")
    word = "GPU takes no part: its" if len(found) == 1 else "GPUs take no part: their"
    return (
        frozenset(found),
        f"{len(found)} {word} driver does not answer for {named}",
    )


def without(snapshot: NodeSnapshot, addresses: frozenset[str]) -> NodeSnapshot:
    """The same node without these GPUs."""
    machine = snapshot.machine
    return msgspec.structs.replace(
        snapshot,
        machine=msgspec.structs.replace(
            machine,
            gpus=tuple(gpu for gpu in machine.gpus if gpu.address not in addresses),
            pairs=tuple(
                pair for pair in machine.pairs if addresses.isdisjoint((pair.src, pair.dst))
            ),
        ),
    )

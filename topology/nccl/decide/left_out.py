"""GPUs that take no part: no driver serves them here, or no library of theirs is modelled."""

from collections.abc import Sequence

import msgspec

from ...hardware import strangers
from ...hardware.vendors import vendors_of
from ...model.machine import Gpu, Machine
from ...model.snapshot import NodeSnapshot
from ...sources.collect import ONLY_PCI
from ..versions import versions


def remarks(gpus: Sequence[Gpu]) -> tuple[str, ...]:
    """A sentence for each vendor that says what is not known of such GPUs."""
    titles = list(dict.fromkeys(version.library.upper() for version in versions()))
    found = []
    for vendor in vendors_of(gpus):
        if vendor.known and vendor.library not in titles:
            theirs = [gpu for gpu in gpus if gpu.vendor == vendor.id]
            found.append(
                f"what {vendor.library} does with {strangers.counted(theirs)} of {vendor.name} is "
                f"not known: there are rules for {' and '.join(titles)} alone"
            )
    return (*found, *strangers.remarks(gpus))


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

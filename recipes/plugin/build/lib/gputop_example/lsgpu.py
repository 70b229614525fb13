"""What `lsgpu` prints: a heading, and an address in each line."""

from pathlib import Path

from gputop.topology.model.format import Format, FormatError
from gputop.topology.model.machine import Gpu
from gputop.topology.model.part import PartialNode


def recognises(head: bytes, path: Path) -> bool:
    """The heading decides, not the name of the file."""
    return head.startswith(b"== lsgpu ==")


def parse(data: bytes, path: Path) -> PartialNode:
    """Every line below the heading is the address of a GPU."""
    gpus: list[Gpu] = []
    for line, address in enumerate(data.decode("utf-8", "replace").splitlines()[1:], 2):
        if address.count(":") != 2:
            raise FormatError(f"not a PCI address: {address[:20]}", line)
        gpus.append(Gpu(address=address, vendor="nvidia", index=len(gpus)))
    return PartialNode(gpus=tuple(gpus))


FORMAT = Format(id="lsgpu", recognises=recognises, parse=parse)

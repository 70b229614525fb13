"""What CONTRIBUTING.md promises of a source and of a format of `--from`: one file and one line."""

from __future__ import annotations

import json

from tests.support.copied_checkout import CopiedCheckout

SOURCE = '''\
"""GPUs that a baseboard controller lists."""

from ..model.machine import Gpu
from ..model.part import Part, Raw
from ..model.record import Gap
from ..model.source import Source


def read() -> Raw:
    """Ask the controller; the answer is plain data."""
    return {"gpus": ["0000:0a:00.0", "0000:0b:00.0"]}


def parse(raw: Raw) -> Part:
    """Every address is a GPU of which nothing else is known."""
    why = (Gap("uuid", "the controller does not tell it"),)
    return Part(
        gpus=tuple(
            Gpu(address=address, vendor="nvidia", index=index, name="Listed", gaps=why)
            for index, address in enumerate(raw["gpus"])
        )
    )


SOURCE = Source(
    id="controller",
    interval_seconds=10.0,
    deadline_seconds=5.0,
    reader=lambda: read,
    parse=parse,
)
'''
FORMAT = '''\
"""What `lsgpu` prints: a heading, and an address in each line."""

from pathlib import Path

from ...model.format import Format, FormatError
from ...model.machine import Gpu
from ...model.part import Part

HEADING = b"== lsgpu =="


def recognises(head: bytes, path: Path) -> bool:
    """The heading decides, not the name of the file."""
    return head.startswith(HEADING)


def parse(data: bytes, path: Path) -> Part:
    """Every line below the heading is the address of a GPU."""
    addresses = data.decode("utf-8", "replace").split("\\n")[1:]
    for line, address in enumerate(addresses, 2):
        if address and address.count(":") != 2:
            raise FormatError(f"not a PCI address: {address[:20]}", line)
    return Part(
        gpus=tuple(
            Gpu(address=address, vendor="nvidia", index=index)
            for index, address in enumerate(filter(None, addresses))
        )
    )


FORMAT = Format(id="lsgpu", recognises=recognises, parse=parse)
'''


def test_a_live_source_is_one_file_and_one_line(checkout: CopiedCheckout) -> None:
    checkout.write("topology/sources/controller.py", SOURCE)
    checkout.add_line("topology/sources/__init__.py", '"pci.pci",', '"controller",')

    taken = checkout.gputop("snapshot")
    assert taken.returncode == 0, taken.stderr
    snapshot = json.loads(taken.stdout)
    gpus = {gpu["address"]: gpu for gpu in snapshot["machine"]["gpus"]}
    for address in ("0000:0a:00.0", "0000:0b:00.0"):
        assert gpus[address]["name"] == "Listed"
        gap = {"field": "uuid", "why": "the controller does not tell it"}
        assert gap in gpus[address]["gaps"]
    assert "controller" in {state["source"] for state in snapshot["states"]}

    matrix = checkout.gputop("topo")
    assert matrix.stdout.startswith("\tGPU0\tGPU1\t"), matrix.stderr


def test_a_format_is_one_file_and_one_line(checkout: CopiedCheckout) -> None:
    checkout.write("topology/recorded/formats/lsgpu.py", FORMAT)
    checkout.add_line("topology/recorded/formats/__init__.py", '"nccl_xml",', '"lsgpu",')
    checkout.write("any.name", "== lsgpu ==\n0000:0a:00.0\n0000:0b:00.0\n")
    checkout.write("broken.txt", "== lsgpu ==\n0000:0a:00.0\nsomewhere\n")

    matrix = checkout.gputop("topo", "--from", "any.name")
    assert matrix.stdout.startswith("\tGPU0\tGPU1\t"), matrix.stderr

    broken = checkout.gputop("topo", "--from", "broken.txt")
    assert broken.returncode != 0
    assert "broken.txt:3: broken lsgpu: not a PCI address: somewhere" in broken.stderr

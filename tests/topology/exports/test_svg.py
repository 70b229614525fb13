"""The node as a picture: every device is in it, and hostile names stay text."""

from __future__ import annotations

import msgspec
import pytest
from defusedxml.ElementTree import fromstring

from gputop.topology.exports import svg
from gputop.topology.node import Node
from tests.support.snapshots import demo_node

SVG = "{http://www.w3.org/2000/svg}"


def texts(node: Node) -> list[str]:
    return [
        "".join(part.itertext()) for part in fromstring(svg.write(node).text).iter(f"{SVG}text")
    ]


@pytest.mark.parametrize("name", ["sick-h100-8", "mi300x-8", "pcie-l40s-8", "dgx-1v"])
def test_every_gpu_and_nic_is_drawn(name: str) -> None:
    node = demo_node(name)
    said = "\n".join(texts(node))
    for gpu in node.snapshot.machine.gpus:
        assert f"GPU{gpu.index}" in said
    assert "mlx5_3" in said
    assert ("NV16 of 18 !" in said) == (name == "sick-h100-8")
    assert f"demo {name}: invented figures" in said


def test_hostile_names_are_text() -> None:
    node = demo_node("pcie-l40s-8")
    machine = node.snapshot.machine
    first, *rest = machine.gpus
    first = msgspec.structs.replace(first, name="<script>\x1b[2J&\u202e")
    machine = msgspec.structs.replace(machine, gpus=(first, *rest))
    made = svg.write(Node(msgspec.structs.replace(node.snapshot, machine=machine))).text
    assert "<script" not in made
    assert "\x1b" not in made
    assert "\u202e" not in made
    fromstring(made)

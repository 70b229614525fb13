"""What docs/adding.md promises of a source and of a format of `--from`: one file and one line."""

from __future__ import annotations

import json

from tests.house.promises.worked_examples import example, line
from tests.support.copied_checkout import CopiedCheckout

SOURCE, SOURCES = "topology/sources/controller.py", "topology/sources/__init__.py"
FORMAT, FORMATS = (
    "topology/recorded/formats/lsgpu.py",
    "topology/recorded/formats/__init__.py",
)


def test_a_live_source_is_one_file_and_one_line(checkout: CopiedCheckout) -> None:
    checkout.write(SOURCE, example(SOURCE))
    checkout.add_line(SOURCES, '"pci.pci",', line(SOURCES))

    taken, matrix = checkout.gputop("snapshot", "topo")
    assert taken.returncode == 0, taken.stderr
    snapshot = json.loads(taken.stdout)
    gpus = {gpu["address"]: gpu for gpu in snapshot["machine"]["gpus"]}
    for address in ("0000:0a:00.0", "0000:0b:00.0"):
        assert gpus[address]["name"] == "Listed"
        gap = {"field": "uuid", "why": "the controller does not tell it"}
        assert gap in gpus[address]["gaps"]
    assert "controller" in {state["source"] for state in snapshot["states"]}

    assert matrix.stdout.startswith("\tGPU0\tGPU1\t"), matrix.stderr


def test_a_format_is_one_file_and_one_line(checkout: CopiedCheckout) -> None:
    checkout.write(FORMAT, example(FORMAT))
    checkout.add_line(FORMATS, '"nccl_xml",', line(FORMATS))
    checkout.write("any.name", "== lsgpu ==\n0000:0a:00.0\n0000:0b:00.0\n")
    checkout.write("broken.txt", "== lsgpu ==\n0000:0a:00.0\nsomewhere\n")

    matrix, broken = checkout.gputop("topo --from any.name", "topo --from broken.txt")
    assert matrix.stdout.startswith("\tGPU0\tGPU1\t"), matrix.stderr
    assert broken.returncode != 0
    assert "broken.txt:3: broken lsgpu: not a PCI address: somewhere" in broken.stderr

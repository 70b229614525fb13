"""What docs/adding.md promises of a vendor: one new file and one line."""

from __future__ import annotations

from tests.house.promises.worked_examples import example, line
from tests.support.copied_checkout import CopiedCheckout

VENDOR, NAMES = (
    "topology/hardware/vendors/acme.py",
    "topology/hardware/vendors/__init__.py",
)
SOURCE = '''\
"""Acme's GPUs, as libacme lists them."""

from ...model.machine import Gpu
from ...model.readings import GpuReading
from ...model.part import PartialNode, Raw
from ...model.source import Source


def parse(raw: Raw) -> PartialNode:
    """Each address is a GPU."""
    gpus = [
        Gpu(
            address=address,
            vendor="acme",
            index=index,
            uuid=f"ACME-{index}",
            name=f"Acme A{index}",
            memory_bytes=2**36,
        )
        for index, address in enumerate(raw)
    ]
    return PartialNode(gpus=tuple(gpus), gpu_readings=tuple(
        GpuReading(address=address, clock_graphics_mhz=1200) for address in raw
    ))


SOURCE = Source(
    id="acme",
    interval_seconds=1.0,
    deadline_seconds=5.0,
    reader=lambda: lambda: ["0000:01:00.0", "0000:02:00.0"],
    parse=parse,
    opening=True,
)
'''
NODE = """
import asyncio
import sys

from gputop.app import GpuTop
from gputop.messages import ReportReady
from gputop.topology.node import Node
from gputop.topology.recorded.load import load
from gputop.topology.report import Report


async def look():
    report = Report(Node(load([sys.argv[1]]).snapshot).decide())
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        pilot.app.post_message(ReportReady(report))
        await pilot.pause()
        await pilot.pause(0.06)
        await pilot.pause()
        strips = pilot.app.screen._compositor.render_strips(pilot.app.size)
    print("\\n".join(strip.text for strip in strips))


asyncio.run(look())
"""


def test_a_vendor_is_one_file_and_one_line(checkout: CopiedCheckout) -> None:
    checkout.write(VENDOR, example(VENDOR))
    checkout.add_line(NAMES, '"amd",', line(NAMES))
    checkout.write("topology/sources/acme/__init__.py", '"""Acme."""\n')
    checkout.write("topology/sources/acme/acme.py", SOURCE)
    checkout.add_line("topology/sources/__init__.py", '"kfd.amdgpu_readings",', '"acme.acme",')
    checkout.write("look.py", NODE)
    (taken,) = checkout.gputop("snapshot")
    assert taken.returncode == 0, taken.stderr
    checkout.write("node.json", taken.stdout)
    checkout.write("bare.json", taken.stdout.replace(str(2**36), "null"))
    matrix, refused, checked, bare = checkout.gputop(
        "topo --from node.json",
        "explain --from node.json",
        "check --verbose --from node.json",
        "check --from bare.json",
    )
    assert matrix.stdout.startswith("\tGPU0\tGPU1\t"), matrix.stderr
    assert "does not know" not in matrix.stderr

    assert refused.returncode == 3
    assert "what ACCL does with 2 GPUs of Acme is not known" in refused.stderr

    assert checked.returncode == 3
    assert "evidence-missing" in checked.stdout
    assert "GPUs of Acme" in checked.stdout
    assert "vendor-unknown" not in checked.stdout
    assert "gpu-models-mixed" in checked.stdout
    words = " ".join(checked.stdout.split())
    assert "ACCL may find no fast path between them." in words
    assert "one name in acme-smi" in words

    assert bare.returncode == 3
    assert "not known of GPU0 and GPU1: its memory" in bare.stdout

    screen = checkout.python("look.py", "node.json").stdout
    assert "1 × Acme A1" in screen
    assert "RoadRunner" in screen
    assert "Coil MHz" in screen
    assert "NVLink" not in screen
    assert " ACCL: no GPU takes part; what ACCL does" in screen

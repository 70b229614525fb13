"""Machines of which several texts are recorded: what is pasted of one machine, text by text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from gputop.topology.exports import matrix, nccl_xml
from gputop.topology.model.snapshot import encode
from gputop.topology.node import Node
from gputop.topology.recorded.feeds import DemoFeed
from tests.support.places import CAPTURES, RECORDINGS

Texts = dict[str, bytes]
"""The texts of one machine by the names of their files."""
FALLEN = b"[  812.1] NVRM: Xid (PCI:0000:%s): 79, pid=1, GPU has fallen off the bus.\n"
STARTS = (1, 6, 88, 94, 115)
"""The lines of mixed.txt at which another output begins."""


def _files(folder: Path, *names: str) -> Callable[[], Texts]:
    return lambda: {name: (folder / name).read_bytes() for name in names}


def _with_xid(bus: bytes, texts: Callable[[], Texts]) -> Callable[[], Texts]:
    """The same machine with a line of the kernel that its GPU is lost."""
    return lambda: {**texts(), "xid.txt": FALLEN % bus}


def _of_demo(name: str) -> Callable[[], Texts]:
    """A demo as `nvidia-smi topo -m`, as NCCL's topology and as a snapshot."""

    def texts() -> Texts:
        node = Node(DemoFeed(name).at(0)).decide()
        return {
            "topo.txt": matrix.write(node).text.encode(),
            "topo.xml": nccl_xml.write(node).text.encode(),
            "snapshot.json": encode(node.snapshot),
        }

    return texts


def _mixed() -> Texts:
    lines = (RECORDINGS / "pasted" / "mixed.txt").read_bytes().splitlines(keepends=True)
    ends = (*(start - 1 for start in STARTS[1:]), len(lines))
    return {
        f"lines-{start}.txt": b"".join(lines[start - 1 : end])
        for start, end in zip(STARTS, ends, strict=True)
    }


_H200 = _files(
    RECORDINGS / "hgx-h200-4gpu-vm",
    "nvidia-smi-q.xml", "nvidia-smi-topo-m.txt", "nvml.json", "sysfs.tar.gz",
)  # fmt: skip
_PUBLIC, _PROBE = RECORDINGS / "nccl-public", RECORDINGS / "nccl-probe"
_PRO_6000 = _files(
    CAPTURES / "first-look/machines/01-pro6000-pex890xx",
    "dmesg.txt", "lscpu.txt", "lspci.txt", "numa.txt", "smi-q.txt", "topo.txt",
)  # fmt: skip
MACHINES: dict[str, Callable[[], Texts]] = {
    "H200": _H200,
    "H200 that lost a GPU": _with_xid(b"00:06", _H200),
    "MI300X": _files(
        RECORDINGS / "amd-smi-mi300x-7",
        "list.json", "metric.json", "process.json", "static.json", "topology.json",
        "version.json", "xgmi.json",
    ),
    "A100": _files(_PUBLIC, "a100-2.log", "a100-2.xml"),
    "A100 with one link": _files(_PUBLIC, "a100-2-one-link.log", "a100-2-one-link.xml"),
    "H200 and its runs": _files(
        _PROBE, "2-gpus-default.log.gz", "2-gpus-p2p-off.log.gz", "2-gpus-net.log.gz", "2-gpus.json"
    ),
    "a paste": _mixed,
    "sick H100": _of_demo("sick-h100-8"),
    "L40S": _of_demo("pcie-l40s-8"),
}  # fmt: skip
CAPTURED: dict[str, Callable[[], Texts]] = {
    "H200 with figures": _files(
        CAPTURES / "hgx-h200-4gpu-vm",
        "nvidia-smi-nvlink-s.txt", "nvidia-smi-q.xml", "nvidia-smi-topo-m.txt",
        "nvidia-smi-topo-p2p.txt", "nccl-topo.xml", "nccl-log-default.txt",
        "nvbandwidth-device_to_device_memcpy_write_ce.txt",
    ),
    "H100": _files(
        CAPTURES / "hgx-h100-4gpu-vm",
        "nvidia-smi-q-x.xml", "topo-m.txt", "nccl-tests-all_reduce-1.txt",
        "nccl-tests-graph5-all_reduce-1.txt",
    ),
    "PRO 6000": _PRO_6000,
    "PRO 6000 that lost a GPU": _with_xid(b"01:00", _PRO_6000),
}  # fmt: skip
"""Machines beside the checkout, where they are on this machine."""


def written(texts: Texts, folder: Path) -> Iterator[tuple[str, Path]]:
    """Write them, each into a file of its name."""
    for name, text in texts.items():
        path = folder / name
        path.write_bytes(text)
        yield name, path

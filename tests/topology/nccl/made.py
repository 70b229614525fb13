"""Topologies for tests of predictions, as XML."""

from __future__ import annotations

from collections.abc import Iterable

from gputop.topology.flags.values.predicting import predict_with_flags
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.nccl.prediction import Prediction
from gputop.topology.nccl.settings import Settings
from gputop.topology.nccl.xml.machine import part_of_topology
from gputop.topology.nccl.xml.read import read_topology
from gputop.topology.sources.collect import merge

INTEL = 'arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143"'
AMD = 'arch="x86_64" vendor="AuthenticAMD" familyid="175" modelid="17"'
ARM = 'arch="arm64"'
SWITCH = "0x068000"


def gpu(
    bus: int,
    rank: int,
    links: Iterable[tuple[str, int, str]] = (),
    *,
    sm: int = 90,
    speed: str = "32.0 GT/s PCIe",
    width: str = "16",
    gdr: int = 1,
) -> str:
    """A GPU on bus `bus`; links are (target, count, class)."""
    inner = "".join(
        f'<nvlink target="{target}" count="{count}" tclass="{kind}"/>'
        for target, count, kind in links
    )
    return (
        f'<pci busid="0000:{bus:02x}:00.0" class="0x030200" link_speed="{speed}" '
        f'link_width="{width}"><gpu dev="{rank}" sm="{sm}" rank="{rank}" gdr="{gdr}">{inner}'
        "</gpu></pci>"
    )


def nic(bus: int, dev: int, *, name: str = "mlx5_{}", speed: int = 400000, gdr: int = 1) -> str:
    """A NIC with one port."""
    return (
        f'<pci busid="0000:{bus:02x}:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" '
        f'link_width="16"><nic><net name="{name.format(dev)}" dev="{dev}" speed="{speed}" '
        f'port="1" guid="0x{dev + 1:x}" maxconn="131072" gdr="{gdr}"/></nic></pci>'
    )


def switch(bus: int, *inside: str, ids: str = "") -> str:
    """A PCIe switch with what hangs below it."""
    return (
        f'<pci busid="0000:{bus:02x}:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" '
        f'link_width="16" {ids}>{"".join(inside)}</pci>'
    )


def cpu(numa: int, *inside: str, kind: str = INTEL, host: str = "0x1") -> str:
    """A NUMA node."""
    return (
        f'<cpu host_hash="{host}" numaid="{numa}" affinity="ffffffff" {kind}>'
        f"{''.join(inside)}</cpu>"
    )


def system(*cpus: str, version: str = "1") -> str:
    """The whole file."""
    return f'<system version="{version}">{"".join(cpus)}</system>'


def snapshot(xml: str) -> NodeSnapshot:
    """The snapshot of such a file."""
    part = part_of_topology(read_topology(xml.encode(), "made"))
    return merge([part], taken_at=0.0, source=("made",), gputop="")


def decide(xml: str, env: dict[str, str] | None = None, **rest: object) -> Prediction:
    """What the library does there; `rest` goes to `predict`."""
    rest.setdefault("library", "nccl-2.28.9")
    return predict_with_flags(snapshot(xml), Settings(env or {}), **rest)  # type: ignore[arg-type]


def transports(prediction: Prediction) -> dict[str, str]:
    """Pair -> label."""
    return {f"{pair.src}-{pair.dst}": pair.label for pair in prediction.pairs}

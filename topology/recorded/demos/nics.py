"""What the NICs of a demo carry, as the reader of `counters` would find it at a tick."""

from __future__ import annotations

from typing import Any

from .pci import ABSENT
from .pci_tree import GPU, NIC, Function, paths
from .readings import Load, Wave
from .shape import DemoShape

SHARE, SWING = 0.4, 0.2
"""Of what the GPU moves over PCIe on average: with GPUDirect RDMA all of it goes there too, so it
stays below that."""
TICKS, WHOLE_TICKS = 2, 16
"""Rates are new once in so many ticks, and all counters are read once in so many, as of a live
node."""
WORD = 4
"""Bytes in one count of a port."""


def counters(shape: DemoShape, functions: tuple[Function, ...], tick: int) -> dict[str, Any]:
    """Counters and rates of the ports; the NIC of a GPU that rests carries nothing."""
    gpus = [one for one in functions if one.kind is GPU]
    nics = [one for one in functions if one.kind is NIC]
    places = paths(functions)
    answer: dict[str, Any] = {"demo": True, "absent": ABSENT, "aer": {}, "ras": {}}
    rdma: dict[str, Any] = {}
    net: dict[str, Any] = {}
    rates: dict[str, Any] = {"rdma": {}, "net": {}}
    for place, nic in enumerate(nics):
        load = Load(shape, gpus[place * len(gpus) // len(nics)], tick)
        level = SHARE * load.host_level() if load.work.links else 0.0
        waves = [Wave(level, SWING, period, load.phase) for period in (23, 27)]
        sent, received = (float(f"{wave.at(tick - tick % TICKS):.4g}") for wave in waves)
        whole = tick - tick % WHOLE_TICKS
        total = [str(round(wave.until(whole) / WORD)) for wave in waves]
        interface = shape.nic.interface.format(index=nic.number)
        path = places[nic.address]
        if shape.nic.verbs:
            name = f"mlx5_{nic.number}"
            counts = dict(zip(("port_xmit_data", "port_rcv_data"), total, strict=True))
            rdma[name] = {"path": f"{path}/infiniband/{name}", "ports": {"1": counts}}
            rates["rdma"][name] = {"1": [sent, received]}
        else:
            net[interface] = {"path": f"{path}/net/{interface}"}
            rates["net"][interface] = [sent, received]
    return {**answer, "rdma": rdma, "net": net, "rates": rates}

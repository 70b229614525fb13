"""Cells of the GPU table: one GPU's figures as short texts with inks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from gputop.terminal.clean import clean
from gputop.topology.hardware.specs import sku_for
from gputop.topology.hardware.vendors import vendor_of
from gputop.topology.model.machine import Gpu
from gputop.topology.model.readings import GpuReading, ProcessReading
from gputop.topology.model.units import UNKNOWN, figure, whole
from gputop.widgets.spans import Line, left, right

if TYPE_CHECKING:
    from gputop.live.recent import Recent
    from gputop.topology.explain.nics import GpuNic

GIB = 2**30
HARMLESS = {"gpu idle": "idle", "sw power cap": "power cap"}
"""Reasons that hold clocks down on every healthy GPU: nothing to do, or the power limit reached by
a large matrix product (Azure/azurehpc-health-checks takes both for normal)."""
LINKS_SIGNED = 6
"""Cells of "16/18!"."""
NO_LINKS = ("Not Supported", "Invalid Argument")
"""What NVML answers where a model has no NVLink, or no MIG."""
ALARMING = {"hw slowdown", "hw thermal", "hw power brake"}


class Row(msgspec.Struct, frozen=True, gc=False):
    """The data of one line of the table."""

    gpu: Gpu
    reading: GpuReading | None
    processes: Mapping[int, ProcessReading]
    stale: bool = False
    """The moving figures are older than two intervals."""
    links_missing: int = 0
    """NVLinks or xGMI links that should be up and are not."""
    mark: tuple[str, str] = ("", "")
    """Sign and ink of the worst finding about this GPU."""
    selected: bool = False
    nic: GpuNic | None = None
    """The NIC that the library takes for this GPU; None where none is known."""
    nic_pace: tuple[float | None, float | None] = (None, None)
    """Bytes a second that its NIC sends and receives."""
    nic_now: str = ""
    """The same in words, and what its ports counted; only of the selected GPU."""
    recent: Recent | None = None
    """What was read in the last minutes."""
    switch: str = ""
    """The PCIe switch above it and who shares that, in words; only of the selected GPU."""

    @property
    def lost(self) -> bool:
        """Whether the driver says that the GPU is gone."""
        return self.reading is not None and self.reading.lost


def short_name(name: str | None) -> str:
    """A product's name without its maker: "H100 80GB HBM3"."""
    if name is None:
        return UNKNOWN
    text = clean(name, 60)
    for maker in ("NVIDIA GeForce ", "NVIDIA ", "AMD Instinct ", "AMD "):
        if text.startswith(maker):
            return text[len(maker) :]
    return text


def model(gpu: Gpu) -> str:
    """The GPU's name, short; else its model by the PCI id."""
    if gpu.name is None:
        sku = sku_for(gpu)
        if sku is not None:
            return sku.name
    return short_name(gpu.name)


def short_address(address: str) -> str:
    """A PCI address without the domain when that is 0000."""
    return clean(address.removeprefix("0000:"), 40)


def index(row: Row, width: int) -> Line:
    """Number on display, with the mark of the cursor and the sign of a finding.

    "A0" for AMD's first GPU beside NVIDIA's, whose numbers begin at 0 too.
    """
    cursor = "›" if row.selected else " "
    sign, ink = row.mark
    signs = ((sign, ink),) if sign else ()
    number = "?" if row.gpu.number is None else str(row.gpu.number)
    if row.gpu.index_shared and row.gpu.number is not None:
        number = f"{vendor_of(row.gpu).label[:1]}{number}"
    return ((cursor, "key bold"), *signs, (right(number, width - 1 - len(sign)), "strong"))


def clock(row: Row, width: int) -> Line:
    """Clock of the multiprocessors, MHz; AMD's is that of the graphics engine."""
    field = vendor_of(row.gpu).clock_field
    value = None if row.reading is None else getattr(row.reading, f"clock_{field}_mhz")
    return ((right(whole(value), width), figure_ink(value, row)),)


def temperature(row: Row, width: int) -> Line:
    """Degrees Celsius; marked within five degrees of where the GPU slows itself down."""
    value = None if row.reading is None else row.reading.temperature_c
    limit = row.gpu.temperature_slowdown_c
    hot = value is not None and limit is not None and value >= limit - 5
    return (
        (
            right(f"{whole(value)}!" if hot else whole(value), width),
            "warn" if hot else figure_ink(value, row),
        ),
    )


def held_by(row: Row, width: int) -> Line:
    """What holds the clocks down; the worst reason first, harmless ones muted."""
    reasons = None if row.reading is None else row.reading.throttle_reasons
    if reasons is None:
        return ((left(UNKNOWN, width), "muted"),)
    worst = sorted(reasons, key=lambda r: (r not in ALARMING, r in HARMLESS))
    if not worst:
        return ((left("nothing", width), "muted"),)
    first = worst[0]
    more = f" +{len(worst) - 1}" if len(worst) > 1 else ""
    if first in HARMLESS:
        return ((left(HARMLESS[first] + more, width), "muted"),)
    sign = "!" if first in ALARMING else ""
    ink = "muted" if row.stale else "bad" if sign else "warn"
    return ((left(sign + clean(first, 40) + more, width), ink),)


def active_links(gpu: Gpu) -> int | None:
    """How many NVLinks (or xGMI wires) are up; None when nothing is known of any."""
    links: list[bool | None] = [link.active for link in gpu.nvlinks]
    links += [link.active for link in gpu.xgmi]
    known = [active for active in links if active is not None]
    return sum(known) if known else None


def without_links(gpu: Gpu) -> bool:
    """Whether a GPU is of a model without NVLink, and its driver says so too."""
    if gpu.nvlinks or gpu.xgmi or gpu.why("nvlinks") not in NO_LINKS:
        return False
    sku = sku_for(gpu)
    return sku is not None and not sku.link_count


def links(row: Row, width: int) -> Line:
    """Links that are up, of all; marked when a sibling on the same switches or mesh has more.

    Inactive links alone prove nothing: bridged cards leave some unused, MIG takes all down.
    """
    total = len(row.gpu.nvlinks) or len(row.gpu.xgmi)
    active = active_links(row.gpu)
    if active is None:
        # A GPU that only PCI shows was never asked for its links.
        unread = total or row.gpu.uuid is None or row.gpu.why("nvlinks")
        return ((right(UNKNOWN if unread else "none", width), "muted"),)
    fewer = row.links_missing > 0
    total = active + row.links_missing if fewer else total
    ink = "bad" if fewer else "link-nvlink" if active else "muted"
    return ((right(f"{active}/{total}{'!' if fewer else ''}", width), ink),)


def fast_traffic(reading: GpuReading) -> tuple[float | None, float | None]:
    """Bytes a second out of and into a GPU over all its NVLinks, or over its xGMI links."""
    if reading.xgmi_tx_bytes_per_second is not None:
        return reading.xgmi_tx_bytes_per_second, reading.xgmi_rx_bytes_per_second
    return reading.nvlink_tx_bytes_per_second, reading.nvlink_rx_bytes_per_second


def pcie_traffic(row: Row, width: int) -> Line:
    """Bytes sent and received over PCIe, GB/s."""
    reading = row.reading
    if reading is None:
        return traffic(None, None, width, row)
    return traffic(reading.pcie_tx_bytes_per_second, reading.pcie_rx_bytes_per_second, width, row)


def pcie(row: Row, width: int) -> Line:
    """Generation and lanes, each as now/max where they differ.

    A low generation is what an idle GPU shows and is no alarm; missing lanes are one.
    """
    reading, gpu = row.reading, row.gpu
    generation, lanes = (None, None) if reading is None else (reading.pcie_gen, reading.pcie_width)
    speed = _now_of_max(generation, gpu.pcie_gen_max)
    # Beside NVLink-C2C a GPU needs few PCIe lanes: Grace boards give it one.
    short = (
        lanes is not None
        and gpu.pcie_width_max is not None
        and lanes < gpu.pcie_width_max
        and not gpu.c2c_enabled
    )
    if short:
        forms = [f"x{lanes} of {gpu.pcie_width_max} !", f"x{lanes}/{gpu.pcie_width_max}!"]
    else:
        both = f"{speed} x{_now_of_max(lanes, gpu.pcie_width_max)}"
        forms = [f"gen{both}", both]
    text = next((form for form in forms if len(form) <= width), forms[-1])
    if generation is None and lanes is None and gpu.pcie_gen_max is None:
        text = UNKNOWN
    return ((right(text, width), "bad" if short else "muted" if row.stale else ""),)


def numa(row: Row, width: int) -> Line:
    """NUMA node next to the GPU."""
    return ((right(whole(row.gpu.numa_node), width), ""),)


def name(row: Row, width: int) -> Line:
    """Product, without its maker."""
    return ((left(model(row.gpu), width), ""),)


def address(row: Row, width: int) -> Line:
    """PCI address."""
    return ((left(short_address(row.gpu.address), width), "muted"),)


def _now_of_max(now: int | None, most: int | None) -> str:
    if now is None or now == most or most is None:
        return whole(most if now is None else now) if now is not None else f"–/{whole(most)}"
    return f"{now}/{most}"


def traffic(tx: float | None, rx: float | None, width: int, row: Row) -> Line:
    """What goes out and comes in, GB/s."""
    if tx is None and rx is None:
        return ((right(UNKNOWN, width), "muted"),)
    sent, received = (UNKNOWN if way is None else rate(way / 1e9) for way in (tx, rx))
    half = (width + 1) // 2
    busy = (tx or 0) + (rx or 0) > 1e7
    text = left(f"↑{sent}", half) + left(f"↓{received}", width - half)
    return ((text, "" if busy and not row.stale else "muted"),)


def rate(gbs: float) -> str:
    """A rate in GB/s; 0 where it rounds to nothing."""
    return "0" if gbs < 0.005 else figure(gbs)


def figure_ink(value: float | None, row: Row) -> str:
    """Muted where the figure is old or not known."""
    return "muted" if row.stale or value is None else ""

"""amdsmi, what stays: who AMD's GPUs are, how they are partitioned, their links, what is granted.

The raw answer: {"system": {function: answer}, "devices": [device]}; a device holds {"index": n,
function: answer} under the names of the Python binding. The key of a call with enumeration members
as arguments names them: "amdsmi_get_gpu_memory_total(VRAM)", "amdsmi_get_clock_info(GFX)",
"amdsmi_get_temp_metric(HOTSPOT,CRITICAL)". "pairs" is [{"peer": index, function: answer}], this
device as the source. An answer is what the binding returns (enumeration members by name), or
{"error": "AmdSmiLibraryException: AMDSMI_STATUS_NOT_SUPPORTED - Feature not supported"}. Units
are the binding's: power caps microwatts (watts before ROCm 6.1.2), sizes bytes (`vram_size` and
`vram_usage` MiB, caches KiB), pair bandwidths MB/s, PCIe rates MT/s, clocks MHz, degrees Celsius.

Where the majors differ: 7.x has `amdsmi_get_link_metrics`, which names the GPU at the end of each
xGMI link; 6.x leaves that open. A word such as "N/A" may stand where a number is promised.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ...model.part import PartialNode, Raw
from ...model.source import Source
from ..files.library_rounds import Rounds
from .handles import AmdsmiDevice, AmdsmiDevices
from .library import AmdsmiLibrary, open_library

_SYSTEM = ("amdsmi_get_lib_version", "amdsmi_get_rocm_version")
_FIRST = (
    ("amdsmi_get_gpu_asic_info",),
    ("amdsmi_get_gpu_device_uuid",),
    ("amdsmi_get_gpu_vram_info",),
    ("amdsmi_get_power_cap_info",),
    ("amdsmi_get_gpu_compute_partition",),
    ("amdsmi_get_gpu_kfd_info",),
)
"""Questions that come first: enough for a row of a table."""
_IDENTITY = (
    *_FIRST,
    ("amdsmi_get_gpu_board_info",),
    ("amdsmi_get_gpu_vbios_info",),
    ("amdsmi_get_fw_info",),
    ("amdsmi_get_gpu_driver_info",),
    ("amdsmi_get_gpu_enumeration_info",),
    ("amdsmi_get_gpu_cache_info",),
    ("amdsmi_get_gpu_virtualization_mode",),
    ("amdsmi_get_gpu_topo_numa_affinity",),
    ("amdsmi_get_xgmi_info",),
    ("amdsmi_get_gpu_memory_total", "AmdSmiMemoryType.VRAM"),
    ("amdsmi_get_gpu_memory_total", "AmdSmiMemoryType.VIS_VRAM"),
    ("amdsmi_get_clock_info", "AmdSmiClkType.GFX"),
    ("amdsmi_get_clock_info", "AmdSmiClkType.MEM"),
    ("amdsmi_get_clock_info", "AmdSmiClkType.VCLK0"),
    *(
        ("amdsmi_get_temp_metric", f"AmdSmiTemperatureType.{sensor}",
         f"AmdSmiTemperatureMetric.{limit}")
        for sensor in ("HOTSPOT", "EDGE", "VRAM")
        for limit in ("CRITICAL", "EMERGENCY")
    ),
)  # fmt: skip
_SETTINGS = (
    ("amdsmi_get_power_cap_info",),
    ("amdsmi_get_gpu_compute_partition",),
    ("amdsmi_get_gpu_memory_partition",),
    ("amdsmi_get_gpu_ecc_enabled",),
    ("amdsmi_get_pcie_info",),
    ("amdsmi_get_gpu_xgmi_link_status",),
    ("amdsmi_get_link_metrics",),
    ("amdsmi_get_gpu_metrics_info",),
)
_PAIR = (
    "amdsmi_topo_get_link_type",
    "amdsmi_topo_get_link_weight",
    "amdsmi_get_minmax_bandwidth_between_processors",
    "amdsmi_is_P2P_accessible",
    "amdsmi_topo_get_p2p_status",
)


class AmdsmiReader:
    """Asks amdsmi once per call; keeps the handles and the answers that cannot change."""

    thorough = False
    """Set for a single reading that has to hold everything."""

    def __init__(self, start: Callable[[], AmdsmiLibrary] = open_library) -> None:
        self._devices = AmdsmiDevices(start)
        self._rounds = Rounds(_SYSTEM)

    @property
    def again_seconds(self) -> float | None:
        """When the rest is to be asked, after a quick first call."""
        return self._rounds.again_seconds

    def __call__(self) -> Raw:
        """Ask once. Raises SourceAbsent, or RuntimeError when amdsmi stops listing GPUs."""
        library, devices = self._devices.current()
        rounds = self._rounds
        rounds.begin(library.ask, thorough=self.thorough)
        for device in devices:
            ask = partial(library.ask_all, device.handle)
            if rounds.fresh or not device.lasting:
                device.lasting = ask(_FIRST if rounds.quick else _IDENTITY)
                if not rounds.quick:
                    device.lasting["pairs"] = _pairs(library, device, devices)
            if not rounds.quick:
                device.answers = ask(_SETTINGS)
        rounds.end()
        if self.thorough:
            self._devices.confirm(library)
        return self._answers(devices)

    def so_far(self) -> Raw:
        """What is known while a question is open: called from another thread, it never waits."""
        devices = self._devices.known
        return self._answers(devices) if devices else None

    def _answers(self, devices: list[AmdsmiDevice]) -> Raw:
        return {"system": self._rounds.system, "devices": [device.raw() for device in devices]}


def _pairs(library: AmdsmiLibrary, device: AmdsmiDevice, devices: list[AmdsmiDevice]) -> list[Raw]:
    return [
        {"peer": peer.index}
        | {name: library.ask(name, device.handle, peer.handle) for name in _PAIR}
        for peer in devices
        if peer is not device
    ]


def parse(raw: Raw) -> PartialNode:
    """Turn an answer into a part, by what a node without AMD's GPUs has no use for."""
    from .parse_machine import parse as understand

    return understand(raw)


SOURCE = Source(
    id="amdsmi",
    interval_seconds=20.0,
    deadline_seconds=5.0,
    reader=AmdsmiReader,
    opening=True,
    parse=parse,
)

"""What a verdict rests on: every field of what drivers say, but those that are named here.

A field of such a record counts as soon as it exists. Where its driver gave no sense, its part of
the node was not examined, and the node is not called healthy.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from ..hardware.specs import two_models
from ..hardware.vendors import NVIDIA
from ..model.machine import Fabric, Gpu, GpuPair, NvLink, PciDevice, PciKind, XgmiLink
from ..model.readings import EccBlock, EccCounts, GpuReading, NvLinkReading, XgmiReading
from ..model.record import Record
from ..sources.pci.devices import AMD, INTEL
from ..sources.pci.devices import NVIDIA as NVIDIA_ID
from .case import Case

_NAMES: Mapping[type[Record], str] = {
    Gpu: "address vendor partition parent index index_shared place minor serial vbios board_id "
    "board_part_number module_id architecture compute_capability core_count "
    "memory_bus_bits power_limit_min_watts power_limit_max_watts temperature_slowdown_c "
    "temperature_shutdown_c temperature_gpu_max_c temperature_memory_max_c "
    "clock_graphics_max_mhz clock_video_max_mhz mig_instances gsp_firmware gpu_numa_id "
    "memory_affinity cpu_affinity package_parts xcd_count caches memory_banks kfd_node "
    "render_minor firmware xgmi_hive",
    GpuReading: "address memory_utilization_percent memory_free_bytes bar1_used_bytes "
    "power_watts temperature_memory_c clock_graphics_mhz clock_memory_mhz clock_video_mhz "
    "performance_state pcie_tx_bytes_per_second pcie_rx_bytes_per_second processes "
    "nvlink_tx_bytes_per_second nvlink_rx_bytes_per_second xgmi_tx_bytes_per_second "
    "xgmi_rx_bytes_per_second xgmi",
    EccCounts: "corrected_aggregate",
    EccBlock: "block deferred",
    NvLink: "link remote_address remote_link",
    NvLinkReading: "link tx_bytes rx_bytes",
    XgmiLink: "remote_address speed_gts width bandwidth_min_gbs bandwidth_max_gbs",
    XgmiReading: "remote_address tx_bytes rx_bytes",
    Fabric: "",
    GpuPair: "src dst p2p_atomics p2p_pci p2p_dma nvlinks_reported",
    PciDevice: " ".join(
        {*PciDevice.__struct_fields__} - {"link_speed_max_gts", "link_width_max", "link_width_now"}
    ),
}
FREE = {record: frozenset(names.split()) for record, names in _NAMES.items()}
"""What no verdict rests on: names, numbers of things, limits of the board, rates of the moment."""
_RESTED = {
    record: tuple(field for field in record.__struct_fields__ if field not in {*free, "gaps"})
    for record, free in FREE.items()
}
_WORDED = (str, tuple)
_SENSELESS = re.compile(
    r"the driver (says|gives no text)|not understood|unknown \(|no PCIe generation"
    r"|an answer that no GPU can give"
)
"""How the parsers begin the gap of an answer that makes no sense; others are an answer, amdsmi's
"N/A" too, which stands for what a product or a driver does not have."""
_REGISTERING = ("Hopper", "Blackwell", "Rubin")
"""Architectures whose NVLinks work after the GPU has joined the fabric of its NVSwitches."""
_NOTHING = "the driver says 0"
_UNKNOWN = "unknown ("
"""How they begin the word for a number that stands for none."""


def senseless(case: Case) -> Iterator[tuple[str, str, str]]:
    """What a verdict rests on and a driver gave no sense of: address of the GPU, what, and why."""
    for now in case.readings.gpus:
        if case.machine.gpu(now.address) is None:
            yield now.address, "the GPU itself", "nothing but its readings tells of it"
    for gpu, records in said(case):
        found = {what: why for record in records for what, why in _of_record(record)}
        sku = case.sku(gpu)
        for what, why in found.items():
            # The second die of a package leaves to the first what both have together.
            if why != _NOTHING or sku is None or sku.devices == 1:
                yield gpu.address, what, why
        for what, why, true in _CONTRADICTIONS:
            if true(case, gpu):
                yield gpu.address, what, why


_NO_VENDOR = (None, 0, 0xFFFF)
"""What no vendor has; all ones are the answer of a device that does not answer."""
_NO_CLASS = (None, 0, 0xFF)
_UNSAID = 0xFF0000
_SHOWING = (0x03, 0x12)
"""Base classes of displays and of accelerators."""
_DRIVERS = (None, "nvidia", "nouveau", "amdgpu", "radeon", "i915", "xe")
"""Drivers of GPUs; whatever another one is bound to is no GPU, or given away."""


def nameless(case: Case) -> list[str]:
    """Functions on the bus that no driver tells of, and that may be GPUs for all that was read."""
    if case.busless or len(case.gpus) < len(case.machine.gpus):
        return []
    known = {gpu.address for gpu in case.machine.gpus}
    return [
        device.address
        for device in case.machine.pci
        if device.kind is PciKind.OTHER
        # `lspci -t` leaves out the classes of all devices.
        and (case.on_node or device.class_code != _UNSAID)
        and device.address not in known
        and device.physical_function is None
        and device.driver in _DRIVERS
        and _may_be_gpu(device)
    ]


def _may_be_gpu(device: PciDevice) -> bool:
    base = None if device.class_code is None else device.class_code >> 16
    if base not in _NO_CLASS:
        return base in _SHOWING and device.vendor_id in _NO_VENDOR
    return device.vendor_id in (*_NO_VENDOR, NVIDIA_ID, AMD, INTEL)


def _ecc_counted(case: Case, gpu: Gpu) -> bool:
    """Whether errors of the memory are counted without ECC; AMD's ECC has parts."""
    now = case.reading(gpu)
    if gpu.ecc_enabled is not False or now is None:
        return False
    total = None if now.ecc is None else now.ecc.uncorrected_volatile
    memory = any(block.block == "UMC" for block in now.ecc_blocks)
    return memory or (total is not None and gpu.vendor == NVIDIA.id)


def _granted(case: Case, gpu: Gpu) -> bool:
    """Whether the driver grants P2P over NVLinks where no GPU has one that is up."""
    granted = any(pair.p2p_nvlink == "ok" for pair in case.pairs_from.get(gpu.address, ()))
    return granted and not (any(case.devices.links_up.values()) or gpu.mig_enabled or gpu.is_vgpu)


def _refused(case: Case, gpu: Gpu) -> bool:
    """Whether xGMI joins it with a GPU that it is said to have no P2P with."""
    ends = {link.remote_address for link in gpu.xgmi if link.active}
    return any(
        pair.p2p_read == "not supported" and pair.dst in ends
        for pair in case.pairs_from.get(gpu.address, ())
    )


def _nowhere(case: Case, gpu: Gpu) -> bool:
    nodes = {numa.node for numa in case.host.numa}
    known = bool(nodes) and gpu.numa_node is not None and not case.busless
    return known and gpu.numa_node not in nodes


def _inside(case: Case, gpu: Gpu) -> bool:
    """Whether it is said to be inside of one board with a GPU that is elsewhere."""
    return any(
        pair.ancestor == "internal" and _apart(case, pair)
        for pair in case.pairs_from.get(gpu.address, ())
    )


def _apart(case: Case, pair: GpuPair) -> bool:
    here, there = case.above(pair.src), case.above(pair.dst)
    boards = {gpu.board_id for end in (pair.src, pair.dst) if (gpu := case.machine.gpu(end))}
    return bool(here and there and here.isdisjoint(there)) or len(boards - {None}) > 1


def _no_heat(case: Case, gpu: Gpu) -> bool:
    now, most = case.reading(gpu), gpu.temperature_shutdown_c
    degrees = None if now is None else now.temperature_c
    return degrees is not None and (degrees <= 0 or 0 < (most or 0) < degrees)


def _other_size(case: Case, gpu: Gpu) -> bool:
    """Whether what is used and free is another memory than the whole one.

    On Grace the kernel has the memory too, as a NUMA node, and keeps files in it.
    """
    now, whole = case.reading(gpu), gpu.memory_bytes
    if now is None or not whole or gpu.is_vgpu or gpu.gpu_numa_id is not None:
        return False
    used, free = now.memory_used_bytes, now.memory_free_bytes
    if used is None or free is None:
        return False
    return not _LEAST_SHARE < (used + free) / whole < _MOST_SHARE


def _odd(field: str, least: float) -> Callable[[Case, Gpu], bool]:
    """Whether a figure of a GPU has less than this share of that of most others of its model.

    Or more than its inverse.
    """

    def odd(case: Case, gpu: Gpu) -> bool:
        others = [
            figure
            for other in case.machine.gpus
            if other is not gpu
            and (other.name, other.pci_id, other.partition) == (gpu.name, gpu.pci_id, gpu.partition)
            and (figure := getattr(other, field))
            and not other.is_vgpu
        ]
        whole = getattr(gpu, field)
        if not whole or gpu.pci_id is None or gpu.is_vgpu:
            return False
        return 2 * sum(not least < whole / other < 1 / least for other in others) > len(others)

    return odd


def _another(case: Case, gpu: Gpu) -> bool:
    """Whether its model on the bus is another one than its driver's."""
    device = case.pci(gpu.address)
    if device is None or device.device_id is None or device.vendor_id is None:
        return False
    return gpu.pci_id not in (None, f"{device.vendor_id:04x}:{device.device_id:04x}")


def _above_most(case: Case, gpu: Gpu) -> bool:
    """Whether its PCIe link is faster or wider now than it can be, by the driver's own words."""
    now = case.reading(gpu)
    gen, lanes = (None, None) if now is None else (now.pcie_gen, now.pcie_width)
    known = (
        (gen, gpu.pcie_gen_max),
        (lanes, gpu.pcie_width_max),
        (gpu.pcie_gen_max, gpu.pcie_gen_max_device),
    )
    return any(one and most and one > most for one, most in known)


def _outside(case: Case, gpu: Gpu) -> bool:
    """Whether a power limit is outside of the range that the driver allows, by 1 % or more."""
    least, most = gpu.power_limit_min_watts, gpu.power_limit_max_watts
    if least is None or not most:
        return False
    given = filter(None, (gpu.power_limit_watts, gpu.power_limit_default_watts))
    return any(not 0.99 * least - 1 <= watts <= 1.01 * most + 1 for watts in given)


def _of_no_such_model(case: Case, gpu: Gpu) -> Iterator[str]:
    """Which of its sizes are far from those of its model; a slice or half of a package has less."""
    model = case.sku(gpu)
    if model is None or model.devices > 1 or gpu.is_vgpu or gpu.partition is not None:
        return
    memory, clock = (gpu.memory_bytes or 0) / 1e9, gpu.clock_sm_max_mhz or 0
    if memory and model.memory_gb and not _LEAST_SHARE < memory / model.memory_gb < _MOST_SIZE:
        yield "memory"
    usual = model.peak_clock_mhz
    if clock and usual and not _LEAST_CLOCK < clock / usual < 1 / _LEAST_CLOCK:
        yield "clocks"
    watts = gpu.power_limit_default_watts or 0
    known = None if "tdp_w" in model.unconfirmed else model.tdp_watts
    if watts and known and not _LEAST_POWER < watts / known < 1 / _LEAST_POWER:
        yield "power"
    if (gpu.pcie_width_max or 0) > model.pcie_width and "pcie_width" not in model.unconfirmed:
        yield "lanes"


def _of_another_age(case: Case, gpu: Gpu) -> bool:
    """Whether links that are up have the version of another generation than its model's."""
    model = case.sku(gpu)
    known = "" if model is None else model.link_kind.removeprefix("nvlink")
    said = {(link.version or "").partition(".")[0] for link in gpu.nvlinks_up}
    return known.isdigit() and any(age.isdigit() and age != known for age in said)


_MOST_SIZE = 1.2
"""Of the memory as it is sold: a GB that means a GiB is 1.07 of it."""
_LEAST_DEFAULT = 0.6
"""Boards of one model are sold with limits that differ by a third."""
_LEAST_POWER = 0.4
"""Of what its maker states: quiet editions of a board are sold with half."""
_LEAST_CLOCK = 0.6
"""Boards of one model differ by a quarter in their highest clock; half or twice is another one."""
_LEAST_SHARE, _MOST_SHARE = 0.8, 1.02
"""What the driver keeps for itself is neither used nor free."""
_NAME = re.compile(r"[A-Za-z]{4}|[A-Z]\d\d|NVS|^0x[\da-f]{4}$")
"""In every name of a GPU: a word, or the number of a model; or its PCI id stands in for it."""


_CONTRADICTIONS: tuple[tuple[str, str, Callable[[Case, Gpu], bool]], ...] = (
    ("ECC", "the driver says that it is off, and counts its errors", _ecc_counted),
    (
        "NVLink-C2C",
        "the driver says that it is off, and gives its links a rate",
        lambda case, gpu: gpu.c2c_enabled is False and gpu.c2c_gbs is not None,
    ),
    ("NVLinks", "the driver says that none is up, and grants P2P over them", _granted),
    (
        "NVLinks",
        "the driver says that they lead to no NVSwitch, and that a fabric of these is joined",
        lambda case, gpu: (
            gpu.fabric is not None
            and gpu.fabric.joined
            and any(link.remote_kind and not link.to_switch for link in gpu.nvlinks_up)
        ),
    ),
    ("NVLinks", "the driver says another generation of them than this model has", _of_another_age),
    (
        "NVLinks",
        "nobody says whether they are up",
        lambda case, gpu: any(
            link.active is None and link.why("active") is None for link in gpu.nvlinks
        ),
    ),
    (
        "NVLinks",
        "the driver does not say which GPUs they lead to",
        lambda case, gpu: any(
            link.to_gpu and (link.why("remote_address") or "").startswith("not understood")
            for link in gpu.nvlinks_up
        ),
    ),
    (
        "fabric",
        "the driver says that there is none, and that NVLinks to NVSwitches are up",
        lambda case, gpu: (
            gpu.fabric is not None
            and gpu.fabric.unsupported
            and gpu.architecture in _REGISTERING
            and any(link.to_switch for link in gpu.nvlinks_up)
        ),
    ),
    ("xGMI", "the driver says that links are up, and that there is no P2P over them", _refused),
    ("NUMA node", "the driver says one that the host does not have", _nowhere),
    (
        "model",
        "the driver says a name that no GPU has",
        lambda case, gpu: bool(gpu.name) and not _NAME.search(gpu.name or ""),
    ),
    (
        "model",
        "the driver says the name of one, and the PCI id of another",
        lambda case, gpu: two_models(gpu),
    ),
    ("place", "the driver says that GPUs are inside of one board, and they are not", _inside),
    ("PCI id", "the driver says another one than the bus", _another),
    (
        "temperature",
        "the driver says 0, or more than that at which the GPU shuts itself down",
        _no_heat,
    ),
    ("memory", "the driver says other sizes of it, used and free, than the whole", _other_size),
    (
        "memory",
        "the driver says another size than for most GPUs of this model",
        _odd("memory_bytes", _LEAST_SHARE),
    ),
    (
        "power limit",
        "the driver says another default than for most GPUs of this model",
        _odd("power_limit_default_watts", _LEAST_DEFAULT),
    ),
    ("PCIe link", "the driver says more now than the most that it can be", _above_most),
    ("power limit", "the driver says one outside of the range that it allows", _outside),
    (
        "memory",
        "the driver says another size than this model has",
        lambda case, gpu: "memory" in _of_no_such_model(case, gpu),
    ),
    (
        "highest clock",
        "the driver says one that is far from this model's",
        lambda case, gpu: "clocks" in _of_no_such_model(case, gpu),
    ),
    (
        "power limit",
        "the driver says a default that is far from this model's",
        lambda case, gpu: "power" in _of_no_such_model(case, gpu),
    ),
    (
        "PCIe link",
        "the driver says more lanes than this model has",
        lambda case, gpu: "lanes" in _of_no_such_model(case, gpu),
    ),
)
"""What answers about a GPU say that cannot be true of it: what it is, why, and the test."""


def said(case: Case) -> Iterator[tuple[Gpu, list[Record]]]:
    """The records of what drivers say of each examined GPU."""
    for gpu in case.gpus:
        records: list[Record | None] = [gpu, gpu.fabric, *gpu.nvlinks, *gpu.xgmi]
        records += case.way_up(gpu.address) or case.way_up(gpu.parent or "")
        records += case.pairs_from.get(gpu.address, ())
        if (now := case.reading(gpu)) is not None:
            records += (now, now.ecc, *now.nvlinks, *now.xgmi, *now.ecc_blocks)
        yield gpu, [record for record in records if record is not None]


def _of_record(record: Record) -> Iterable[tuple[str, str]]:
    rested = _RESTED[type(record)]
    for gap in record.gaps:
        if gap.field in rested and _SENSELESS.match(gap.why):
            yield gap.field.replace("_", " "), gap.why
    for field in rested:
        value = getattr(record, field)
        if type(value) in _WORDED and (word := _unknown(value)):
            yield field.replace("_", " "), word


def _unknown(value: object) -> str:
    """The word of a value that stands for no word of the driver."""
    if type(value) is str:
        return value if value.startswith(_UNKNOWN) else ""
    if type(value) is tuple and value and not isinstance(value[0], Record):
        return next(filter(None, map(_unknown, value)), "")
    return ""

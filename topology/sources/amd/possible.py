"""Answers of amdsmi that no GPU can give: a broken driver's nonsense is taken for a refusal."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from ...model.part import Raw
from ..files.answers import under
from ..files.library_answers import dicts, is_whole
from ..files.limits import (
    BYTES,
    CODE,
    COUNT,
    DEGREES,
    LANES,
    MEGAHERTZ,
    THRESHOLD,
    UNKNOWN,
    doubtful,
    wrong,
)
from .answers import NOTHING
from .words import ECC_BLOCKS, MIB

IMPOSSIBLE = {"error": "AmdSmiImpossible: an answer that no GPU can give"}
"""Stands for nonsense. The name is that of an error of the library, so it counts as a failure."""
_ZERO = {"error": "the driver says 0"}
"""Stands for a 0 where there is always more: that is how a driver says nothing."""
_MICROWATTS = (0, 10**12)
_WATTS = (0, 10**5)
_MEGATRANSFERS = (0, 10**6)
_MEGABYTES = (0, 10**9)
_TICKS = (0, 2**56)
_CLOCK = {"clk": MEGAHERTZ, "cur_clk": MEGAHERTZ, "max_clk": MEGAHERTZ}
_ERRORS = {"correctable_count": COUNT, "uncorrectable_count": COUNT, "deferred_count": COUNT}
_BDF = "amdsmi_get_gpu_device_bdf"
_NOWHERE = "0000:00:00.0"
"""An answer that nobody wrote: the root of the first PCI domain is no GPU."""
_UUID = "amdsmi_get_gpu_device_uuid"
_FORM = re.compile(r"(GPU-)?[\da-fA-F-]{8,}$")
_PAGES = "amdsmi_get_gpu_bad_page_info"
_VRAM, _STATED = "amdsmi_get_gpu_memory_total(VRAM)", "amdsmi_get_gpu_vram_info"
_DIFFERENT = 1.2
"""One size of the memory that is so many times the other."""
_SIZES = (_VRAM, "amdsmi_get_gpu_memory_total(VIS_VRAM)")
LIMITS: dict[str, Any] = {
    **dict.fromkeys(
        (
            _UUID, "amdsmi_get_gpu_compute_partition", "amdsmi_get_gpu_memory_partition",
            "amdsmi_get_gpu_virtualization_mode",
        )
    ),
    "amdsmi_get_gpu_asic_info": {"num_compute_units": (0, 10**6), "oam_id": CODE},
    "amdsmi_get_gpu_vram_info": {"vram_size": (0, 2**34), "vram_bit_width": (0, 10**6)},
    "amdsmi_get_power_cap_info": dict.fromkeys(
        ("power_cap", "default_power_cap", "min_power_cap", "max_power_cap"), _MICROWATTS
    ),
    "amdsmi_get_gpu_kfd_info": {"node_id": (0, 10**5), "current_partition_id": CODE},
    "amdsmi_get_gpu_topo_numa_affinity": (-1, 10**5),
    "amdsmi_get_gpu_memory_total": BYTES,
    "amdsmi_get_gpu_memory_usage": BYTES,
    "amdsmi_get_clock_info": _CLOCK,
    "amdsmi_get_temp_metric": THRESHOLD,
    "amdsmi_get_gpu_ecc_enabled": (0, 2**40),
    "amdsmi_get_pcie_info": {
        "pcie_static": {"max_pcie_width": LANES, "max_pcie_speed": _MEGATRANSFERS},
        "pcie_metric": {"pcie_width": LANES, "pcie_speed": _MEGATRANSFERS},
    },
    "amdsmi_get_gpu_xgmi_link_status": {"total_links": LANES},
    "amdsmi_get_gpu_metrics_info": {
        "temperature_hotspot": DEGREES, "temperature_mem": DEGREES, "temperature_edge": DEGREES,
        "xgmi_link_speed": CODE, "xgmi_link_width": CODE, "accumulation_counter": _TICKS,
    },
    "amdsmi_get_gpu_activity": {"gfx_activity": (0, 100), "umc_activity": (0, 100)},
    "amdsmi_get_power_info": dict.fromkeys(
        ("socket_power", "current_socket_power", "average_socket_power"), _WATTS
    ),
    "amdsmi_get_gpu_total_ecc_count": _ERRORS,
    "amdsmi_get_gpu_ecc_count": _ERRORS,
    "amdsmi_get_violation_status": {"acc_counter": _TICKS},
    "amdsmi_topo_get_link_type": {"hops": CODE, "type": CODE},
    "amdsmi_topo_get_link_weight": (0, 10**6),
    "amdsmi_get_minmax_bandwidth_between_processors": {
        "min_bandwidth": _MEGABYTES, "max_bandwidth": _MEGABYTES,
    },
    "amdsmi_topo_get_p2p_status": {"type": CODE},
}  # fmt: skip
"""Function that a verdict rests on: the least and the most that it can answer, whole or by its
parts; None where it answers with words."""
_LIMITS_OF_BLOCKS = dict.fromkeys(ECC_BLOCKS, _ERRORS)


def plausible(device: dict[str, Raw]) -> dict[str, Raw]:
    """A device's raw answer with refusals in place of what no GPU can answer."""
    changed = doubtful(
        device, _limits_of, never_zero=_SIZES, lists=(_PAGES,), impossible=IMPOSSIBLE, zero=_ZERO
    )
    if device.get(_BDF) == _NOWHERE:
        changed[_BDF] = IMPOSSIBLE
    uuid = device.get(_UUID)
    if isinstance(uuid, str) and uuid.strip().lower() not in NOTHING and not _FORM.match(uuid):
        changed[_UUID] = IMPOSSIBLE
    exact, stated = device.get(_VRAM), under(device.get(_STATED), "vram_size")
    both = is_whole(exact) and is_whole(stated) and stated > 0 and stated not in UNKNOWN
    if both and exact and not 1 / _DIFFERENT < exact / (stated * MIB) < _DIFFERENT:
        changed[_VRAM] = IMPOSSIBLE
    blocks = device.get("ecc")
    if isinstance(blocks, dict) and (odd := wrong(blocks, _LIMITS_OF_BLOCKS.get)):
        changed["ecc"] = blocks | dict.fromkeys(odd, IMPOSSIBLE)
    pairs = device.get("pairs")
    if isinstance(pairs, list) and any(wrong(pair, _limits_of) for pair in dicts(pairs)):
        changed["pairs"] = [_pair(pair) for pair in pairs]
    return device | changed if changed else device


def _pair(pair: Raw) -> Raw:
    if not isinstance(pair, dict):
        return pair
    return pair | dict.fromkeys(wrong(pair, _limits_of), IMPOSSIBLE)


@lru_cache(512)
def _limits_of(question: str) -> Any:
    if question.startswith("amdsmi_get_temp_metric(") and question.endswith(",CURRENT)"):
        return DEGREES
    return LIMITS.get(question.partition("(")[0])

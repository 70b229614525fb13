"""Clocks that a setting holds low: application clocks, locked clocks."""

from __future__ import annotations

from ....hardware.vendors import AMD, NVIDIA
from ....model.page import Fix
from ....model.severity import SLOW
from ... import vendors
from ...case import Case
from ...rule import Found, Rule
from ...shared.clock_looks import HARDWARE_WORDS, HEAT, IDLE, Look, addresses_of, looks_at

_SETTINGS = ("applications clocks", "sync boost")
_EXCUSED = (*HARDWARE_WORDS, HEAT, IDLE, "sw power cap", "display clock")
"""Reasons that explain a low clock without any setting."""


def _held(case: Case) -> Found:
    looks = [
        look
        for look in looks_at(case, case.threshold(HELD, "busy_percent"))
        if look.clock_mhz is not None and look.gpu.clock_sm_max_mhz and look.busy is not None
    ]
    if not looks:
        return None
    hit = [look for look in looks if _is_held(case, look)]
    if not hit:
        return []
    addresses = addresses_of(hit)
    lowest = min((look.clock_mhz or 0) / (look.gpu.clock_sm_max_mhz or 1) for look in hit)
    return HELD.finding(
        SLOW,
        f"a setting holds the clocks of {case.names(addresses)} low",
        devices=addresses,
        evidence=[
            (
                f"SM clock of {case.name(look.gpu.address)} under load",
                (
                    f"{look.clock_mhz:.0f} of {look.gpu.clock_sm_max_mhz} MHz; reasons: "
                    f"{', '.join(look.reasons) or 'none'}"
                ),
                look.source + ("" if look.gpu.vendor == AMD.id else ", nvmlDeviceGetClockInfo"),
            )
            for look in hit
        ],
        impact=(
            f"What computes runs at {100 * lowest:.0f} % of the clock, and a job over several "
            f"GPUs at the pace of the slowest; copies over {case.words.link} and PCIe suffer "
            "less."
        ),
        fix=[
            Fix(
                text="Let the driver choose the clocks again.",
                command=vendors.command(
                    [look.gpu for look in hit],
                    nvidia="nvidia-smi -rgc && nvidia-smi -rac",
                    amd="amd-smi reset --clocks",
                ),
                needs_root=True,
            )
        ],
    )


def _is_held(case: Case, look: Look) -> bool:
    share = (look.clock_mhz or 0) / (look.gpu.clock_sm_max_mhz or 1)
    if not look.busy or any(word in _EXCUSED for word in look.reasons):
        return False
    if any(word in _SETTINGS for word in look.reasons):
        return share < case.threshold(HELD, "named_share")
    # Locked clocks (nvidia-smi -lgc) show no reason of their own. An unnamed bit might be one, and
    # near the power limit the cap's bit comes and goes while the clock stays low.
    unnamed = any(word.startswith("unknown") for word in look.reasons)
    if unnamed or look.power_watts is None or not look.gpu.power_limit_watts:
        return False
    spare = look.power_watts < case.threshold(HELD, "power_share") * look.gpu.power_limit_watts
    return spare and share < case.threshold(HELD, "unnamed_share")


HELD = Rule(
    id="clocks-held",
    family="D34",
    title="clocks that a setting holds low",
    evidence="SM clock and power of a GPU under load, their limits, the reasons that hold it down",
    vendor=NVIDIA.id,
    disproof="an SM clock near its highest, or a power cap, while matrix products run",
    sources=("nvml.h nvmlClocksEventReasonApplicationsClocksSetting", "nvidia-smi -lgc, -ac"),
    check=_held,
    thresholds=(
        ("busy_percent", 90.0),
        ("named_share", 0.95),
        ("unnamed_share", 0.7),
        ("power_share", 0.85),
    ),
)


RULES = (HELD,)

"""Power limits that are set below the model's default."""

from __future__ import annotations

from ....hardware.vendors import AMD, NVIDIA
from ....model.page import Fix
from ....model.severity import SLOW
from ...case import Case
from ...rule import Found, Rule


def _power(case: Case) -> Found:
    known = [
        (gpu, gpu.power_limit_watts, gpu.power_limit_default_watts)
        for gpu in case.gpus
        if gpu.power_limit_watts is not None
        and gpu.power_limit_default_watts
        # The firmware of a laptop moves the limit between processor and GPU by itself.
        and "laptop" not in (gpu.name or "").lower()
    ]
    if not known:
        return None
    least = case.threshold(POWER, "minimum_share")
    low = [(gpu, limit, usual) for gpu, limit, usual in known if limit < least * (usual or 0)]
    if not low:
        return []
    addresses = [gpu.address for gpu, _, _ in low]
    worst = min(limit / (usual or 1) for _, limit, usual in low)
    indices = ",".join(str(gpu.index) for gpu, _, _ in low if gpu.index is not None)
    nvidia = all(gpu.vendor == NVIDIA.id for gpu, _, _ in low) and indices
    return POWER.finding(
        SLOW,
        f"the power limit of {case.names(addresses)} is below its default",
        devices=addresses,
        evidence=[
            (
                f"power limit of {case.name(gpu)}",
                f"{limit:.0f} W; by default {usual:.0f} W",
                "NVML nvmlDeviceGetEnforcedPowerLimit"
                if gpu.vendor == NVIDIA.id
                else "amd-smi static",
            )
            for gpu, limit, usual in low
        ],
        impact=(
            f"Matrix products get {100 * worst:.0f} % of the power and lower clocks; "
            "memory and links keep theirs."
        ),
        fix=[
            Fix(
                text="Set the default again, unless the site limits power on purpose.",
                command=f"nvidia-smi -i {indices} -pl {low[0][2]:.0f}" if nvidia else "",
                needs_root=True,
            )
        ],
    )


POWER = Rule(
    id="power-limit-low",
    title="power limits below the model's default",
    evidence="the limit that is enforced and the default",
    disproof="`nvidia-smi -q -d POWER` with a current limit that equals the default",
    disproof_by=(
        (AMD.id, "`amd-smi static --limit` with a current limit that equals the default"),
    ),
    sources=("NVIDIA NVML API: nvmlDeviceGetEnforcedPowerLimit",),
    check=_power,
    thresholds=(("minimum_share", 0.95),),
)
RULES = (POWER,)

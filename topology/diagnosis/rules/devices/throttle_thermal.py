"""Clocks that the driver lowers because of heat."""

from __future__ import annotations

from ....hardware.vendors import AMD
from ....model.severity import NOTICE
from ...case import Case
from ...rule import Found, Rule
from ...shared.clock_looks import HEAT, addresses_of, held_by, looks_at
from .clocks_held import HELD


def _thermal(case: Case) -> Found:
    looks = looks_at(case, case.threshold(HELD, "busy_percent"))
    if not looks:
        return None
    hit = [look for look in looks if HEAT in look.reasons]
    if not hit:
        return []
    addresses = addresses_of(hit)
    return THERMAL.finding(
        NOTICE,
        f"the driver lowers clocks because of heat on {case.names(addresses)}",
        devices=addresses,
        evidence=held_by(case, hit, (HEAT,)),
        impact="The GPU runs a little below its clock; with more heat it slows down hard.",
        fix=["Check fans, air flow and the inlet temperature of the node."],
    )


THERMAL = Rule(
    id="throttle-thermal",
    family="D34",
    title="clocks that the driver lowers because of heat",
    evidence="the reasons that hold clocks down, now or while a probe ran",
    disproof="`nvidia-smi -q -d PERFORMANCE` with SW Thermal Slowdown: Not Active",
    disproof_by=((AMD.id, "no such reason in `amd-smi metric`"),),
    sources=("nvml.h nvmlClocksEventReasonSwThermalSlowdown",),
    check=_thermal,
    implied_by=("throttle-hardware",),
)


RULES = (THERMAL,)

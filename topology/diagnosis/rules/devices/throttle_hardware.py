"""Clocks that the hardware holds down: heat, power brake."""

from __future__ import annotations

from ....hardware.vendors import AMD
from ....model.finding import Finding
from ....model.page import Fix
from ....model.severity import NOTICE, SLOW, Severity
from ... import vendors
from ...case import Case
from ...rule import Found, Rule, Step
from ...shared.clock_looks import HARDWARE_WORDS, Look, addresses_of, held_by, looks_at
from .clocks_held import HELD


def _hardware(case: Case) -> Found:
    looks = looks_at(case, case.threshold(HELD, "busy_percent"))
    if not looks:
        return None
    found = []
    hit = [look for look in looks if any(word in HARDWARE_WORDS for word in look.reasons)]
    # On an idle GPU the plain bit alone costs nothing measurable.
    resting = [
        look
        for look in hit
        if look.busy is False and not set(look.reasons) & {"hw thermal", "hw power brake"}
    ]
    loud = [look for look in hit if look not in resting]
    for severity, those in ((SLOW, loud), (NOTICE, resting)):
        addresses = addresses_of(those)
        if severity == NOTICE:
            addresses = [address for address in addresses if address not in addresses_of(loud)]
        if addresses:
            found.append(_hardware_finding(case, severity, those, addresses))
    return found


def _hardware_finding(
    case: Case, severity: Severity, looks: list[Look], addresses: list[str]
) -> Finding:
    words = {word for look in looks for word in look.reasons}
    fixes: list[Step] = []
    if "hw thermal" in words:
        fixes.append("Check fans, air flow, coolant and the inlet temperature.")
    if "hw power brake" in words:
        fixes.append("Check the power supplies: the node itself asks the GPUs to save power.")
    fixes.append(
        Fix(
            text="Watch whether it stays, and which reason it is.",
            command=vendors.command(
                [look.gpu for look in looks],
                nvidia="nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER",
                amd="amd-smi metric --power --temperature --clock",
            ),
        )
    )
    return HARDWARE.finding(
        severity,
        f"hardware slows {case.names(addresses)} down",
        devices=addresses,
        evidence=held_by(
            case, [look for look in looks if look.gpu.address in addresses], HARDWARE_WORDS
        ),
        impact=(
            f"Clocks drop to half or less{_worst(looks)}; collectives wait for the slowest GPU."
            if severity == SLOW
            else "The GPU is at rest now; under load its clocks may drop to half or less."
        ),
        fix=fixes,
    )


def _worst(looks: list[Look]) -> str:
    """The lowest clock of a GPU that works, as a share of its highest."""
    shares = [
        look.clock_mhz / look.gpu.clock_sm_max_mhz
        for look in looks
        if look.clock_mhz is not None and look.gpu.clock_sm_max_mhz and look.busy
    ]
    return f" (now {100 * min(shares):.0f} % of the highest)" if shares else ""


HARDWARE = Rule(
    id="throttle-hardware",
    family="D34",
    title="clocks that the hardware holds down: heat, power brake",
    evidence="the reasons that hold clocks down, now or while a probe ran",
    disproof="`nvidia-smi -q -d PERFORMANCE` with HW Slowdown: Not Active, again and again",
    disproof_by=((AMD.id, "no such reason in `amd-smi metric`, again and again"),),
    sources=("nvml.h nvmlClocksEventReasons", "NVIDIA/NVSentinel#890", "leptonai/gpud"),
    check=_hardware,
)


RULES = (HARDWARE,)

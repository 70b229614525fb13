"""Clocks that something holds down: hardware, heat, a setting.

A power cap under load is normal and never a finding: a large matrix product reaches the limit of
an H100 always. Reasons and clocks are those of this moment, or those that a probe saw meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ..machine import Gpu
from ..snapshot import Measurement
from . import vendors
from .case import Case
from .finding import NOTICE, SLOW, Evidence, Finding, Fix
from .rule import Rule

_HARDWARE = ("hw slowdown", "hw thermal", "hw power brake")
_HEAT = "sw thermal"
_IDLE = "gpu idle"
_SETTINGS = ("applications clocks", "sync boost")
_EXCUSED = (*_HARDWARE, _HEAT, _IDLE, "sw power cap", "display clock")
"""Reasons that explain a low clock without any setting."""
_PROBE_WORDS = {"idle": _IDLE, "application clocks": "applications clocks"}
"""Where the probes' words differ from those of the readings."""
_NVML = "NVML nvmlDeviceGetCurrentClocksEventReasons"


class _Look(msgspec.Struct, frozen=True):
    """What one GPU did at one moment, or while one thing was measured."""

    gpu: Gpu
    reasons: tuple[str, ...]
    clock_mhz: float | None
    busy: bool | None
    """None where the load is not known."""
    source: str
    temperature_c: float | None = None
    power_watts: float | None = None


def _looks(case: Case) -> list[_Look]:
    found: list[_Look] = []
    by_address = {gpu.address: gpu for gpu in case.gpus}
    for gpu in case.gpus:
        reading = case.reading(gpu)
        if reading is None or reading.throttle_reasons is None:
            continue
        load = reading.utilization_percent
        busy = None if load is None else load >= case.threshold(HELD, "busy_percent")
        if _IDLE in reading.throttle_reasons:
            busy = False
        found.append(
            _Look(gpu, reading.throttle_reasons, reading.clock_sm_mhz, busy,
                  vendors.source([gpu], _NVML),
                  reading.temperature_c, reading.power_watts)
        )  # fmt: skip
    for figure in case.snapshot.measurements:
        measured = by_address.get(figure.src or "")
        if measured is not None and figure.device_kind != "cpu":
            look = _while_measured(measured, figure)
            found += [look] if look is not None else []
    return found


def _while_measured(gpu: Gpu, figure: Measurement) -> _Look | None:
    words = figure.details.get("throttle")
    if not isinstance(words, list | tuple) or not all(isinstance(word, str) for word in words):
        return None
    plain = [word.replace("-", " ") for word in words]
    reasons = tuple(_PROBE_WORDS.get(word, word) for word in plain)
    return _Look(
        gpu,
        reasons,
        _number(figure, "sm_clock_mhz"),
        # Only a matrix product keeps the clock's part of the GPU busy for certain.
        figure.unit == "TFLOP/s" and _IDLE not in reasons,
        f"probe {figure.probe}, {figure.quantity}",
        _number(figure, "temperature_c"),
        _number(figure, "power_w"),
    )


def _number(figure: Measurement, key: str) -> float | None:
    value = figure.details.get(key)
    return float(value) if isinstance(value, int | float) else None


def _told(case: Case, looks: list[_Look], wanted: tuple[str, ...]) -> list[Evidence]:
    return [
        Evidence(
            what=f"clocks of {case.name(look.gpu.address)} are held by",
            value=", ".join([*(w for w in look.reasons if w in wanted), *_circumstances(look)]),
            source=look.source,
        )
        for look in looks
    ]


def _circumstances(look: _Look) -> list[str]:
    found = []
    if look.clock_mhz is not None:
        most = f" of {look.gpu.clock_sm_max_mhz}" if look.gpu.clock_sm_max_mhz else ""
        found.append(f"at {look.clock_mhz:.0f}{most} MHz")
    if look.temperature_c is not None:
        found.append(f"{look.temperature_c:.0f} °C")
    return found


def _addresses(looks: list[_Look]) -> list[str]:
    return list(dict.fromkeys(look.gpu.address for look in looks))


def _hardware(case: Case) -> Iterable[Finding] | None:
    looks = _looks(case)
    if not looks:
        return None
    found = []
    hit = [look for look in looks if any(word in _HARDWARE for word in look.reasons)]
    # The plain bit alone, on a GPU at rest, costs nothing that can be shown.
    resting = [
        look
        for look in hit
        if look.busy is False and not set(look.reasons) & {"hw thermal", "hw power brake"}
    ]
    loud = [look for look in hit if look not in resting]
    for severity, those in ((SLOW, loud), (NOTICE, resting)):
        addresses = _addresses(those)
        if severity == NOTICE:
            addresses = [one for one in addresses if one not in _addresses(loud)]
        if addresses:
            found.append(_hardware_finding(case, severity, those, addresses))
    return found


def _hardware_finding(
    case: Case, severity: str, looks: list[_Look], addresses: list[str]
) -> Finding:
    words = {word for look in looks for word in look.reasons}
    fixes = []
    if "hw thermal" in words:
        fixes.append(Fix(text="Check fans, air flow, coolant and the inlet temperature."))
    if "hw power brake" in words:
        fixes.append(
            Fix(text="Check the power supplies: the node itself asks the GPUs to save power.")
        )
    fixes.append(
        Fix(
            text="Watch whether it stays, and which reason it is.",
            command=vendors.command(
                [look.gpu for look in looks],
                "nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER",
                "amd-smi metric --power --temperature --clock",
            ),
        )
    )
    return HARDWARE.finding(
        severity,
        f"hardware slows {case.names(addresses)} down",
        devices=addresses,
        evidence=_told(case, [look for look in looks if look.gpu.address in addresses], _HARDWARE),
        consequence=(
            f"Clocks drop to half or less{_worst(looks)}; collectives wait for the slowest GPU."
            if severity == SLOW
            else "The GPU is at rest now; under load its clocks may drop to half or less."
        ),
        fix=fixes,
    )


def _worst(looks: list[_Look]) -> str:
    """The lowest clock of a GPU that works, as a share of its highest."""
    shares = [
        look.clock_mhz / look.gpu.clock_sm_max_mhz
        for look in looks
        if look.clock_mhz is not None and look.gpu.clock_sm_max_mhz and look.busy
    ]
    return f" (now {100 * min(shares):.0f} % of the highest)" if shares else ""


def _thermal(case: Case) -> Iterable[Finding] | None:
    looks = _looks(case)
    if not looks:
        return None
    hit = [look for look in looks if _HEAT in look.reasons]
    if not hit:
        return []
    addresses = _addresses(hit)
    return [
        THERMAL.finding(
            NOTICE,
            f"the driver lowers clocks because of heat on {case.names(addresses)}",
            devices=addresses,
            evidence=_told(case, hit, (_HEAT,)),
            consequence="The GPU runs a little below its clock; with more heat it slows down hard.",
            fix=[Fix(text="Check fans, air flow and the inlet temperature of the node.")],
        )
    ]


def _held(case: Case) -> Iterable[Finding] | None:
    looks = [
        look
        for look in _looks(case)
        if look.clock_mhz is not None and look.gpu.clock_sm_max_mhz and look.busy is not None
    ]
    if not looks:
        return None
    hit = [look for look in looks if _is_held(case, look)]
    if not hit:
        return []
    addresses = _addresses(hit)
    lowest = min((look.clock_mhz or 0) / (look.gpu.clock_sm_max_mhz or 1) for look in hit)
    return [
        HELD.finding(
            SLOW,
            f"a setting holds the clocks of {case.names(addresses)} low",
            devices=addresses,
            evidence=[
                Evidence(
                    what=f"SM clock of {case.name(look.gpu.address)} under load",
                    value=f"{look.clock_mhz:.0f} of {look.gpu.clock_sm_max_mhz} MHz; reasons: "
                    f"{', '.join(look.reasons) or 'none'}",
                    source=look.source
                    + ("" if look.gpu.vendor == "amd" else ", nvmlDeviceGetClockInfo"),
                )
                for look in hit
            ],
            consequence=(
                f"What computes runs at {100 * lowest:.0f} % of the clock, and a job over several "
                "GPUs at the pace of the slowest; copies over NVLink and PCIe suffer less."
            ),
            fix=[
                Fix(
                    text="Let the driver choose the clocks again.",
                    command=vendors.command(
                        [look.gpu for look in hit],
                        "nvidia-smi -rgc && nvidia-smi -rac",
                        "amd-smi reset --clocks",
                    ),
                    needs_root=True,
                )
            ],
        )
    ]


def _is_held(case: Case, look: _Look) -> bool:
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


HARDWARE = Rule(
    id="throttle-hardware",
    peers="D34",
    title="clocks that the hardware holds down: heat, power brake",
    evidence="the reasons that hold clocks down, now or while a probe ran",
    disproof="`nvidia-smi -q -d PERFORMANCE` with HW Slowdown: Not Active, again and again",
    sources=("nvml.h nvmlClocksEventReasons", "NVIDIA/NVSentinel#890", "leptonai/gpud"),
    check=_hardware,
)
THERMAL = Rule(
    id="throttle-thermal",
    peers="D34",
    title="clocks that the driver lowers because of heat",
    evidence="the reasons that hold clocks down, now or while a probe ran",
    disproof="`nvidia-smi -q -d PERFORMANCE` with SW Thermal Slowdown: Not Active",
    sources=("nvml.h nvmlClocksEventReasonSwThermalSlowdown",),
    check=_thermal,
    implied_by=("throttle-hardware",),
)
HELD = Rule(
    id="clocks-held",
    peers="D34",
    title="clocks that a setting holds low",
    evidence="SM clock and power of a GPU under load, their limits, the reasons that hold it down",
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
RULES = (HARDWARE, HELD, THERMAL)

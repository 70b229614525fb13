"""The reasons that hold clocks down: those of this moment, or those that a probe saw.

A power cap under load is normal and never a finding: a large matrix product always reaches the
limit of an H100.
"""

from __future__ import annotations

import msgspec

from ...model.machine import Gpu
from ...model.snapshot import Measurement
from .. import vendors
from ..case import Case
from ..rule import Proof

HARDWARE_WORDS = ("hw slowdown", "hw thermal", "hw power brake")
HEAT = "sw thermal"
IDLE = "gpu idle"
_PROBE_WORDS = {"idle": IDLE, "application clocks": "applications clocks"}
"""Where the probes' words differ from those of the readings."""
_NVML = "NVML nvmlDeviceGetCurrentClocksEventReasons"


class Look(msgspec.Struct, frozen=True):
    """The state of one GPU at one moment, or during one measurement."""

    gpu: Gpu
    reasons: tuple[str, ...]
    clock_mhz: float | None
    busy: bool | None
    """None where the load is not known."""
    source: str
    temperature_c: float | None = None
    power_watts: float | None = None


def looks_at(case: Case, busy_percent: float) -> list[Look]:
    """All looks at the examined GPUs; a GPU is busy from a utilisation of `busy_percent`."""
    found: list[Look] = []
    by_address = {gpu.address: gpu for gpu in case.gpus}
    for gpu in case.gpus:
        reading = case.reading(gpu)
        if reading is None or reading.throttle_reasons is None:
            continue
        load = reading.utilization_percent
        busy = None if load is None else load >= busy_percent
        if IDLE in reading.throttle_reasons:
            busy = False
        found.append(
            Look(
                gpu,
                reading.throttle_reasons,
                reading.clock_sm_mhz,
                busy,
                vendors.source([gpu], _NVML),
                reading.temperature_c,
                reading.power_watts,
            )
        )
    for figure in case.snapshot.measurements:
        measured = by_address.get(figure.src or "")
        if measured is not None and figure.device_kind != "cpu":
            look = _while_measured(measured, figure)
            found += [look] if look is not None else []
    return found


def _while_measured(gpu: Gpu, figure: Measurement) -> Look | None:
    words = figure.details.get("throttle")
    if not isinstance(words, list | tuple) or not all(isinstance(word, str) for word in words):
        return None
    plain = [word.replace("-", " ") for word in words]
    reasons = tuple(_PROBE_WORDS.get(word, word) for word in plain)
    return Look(
        gpu,
        reasons,
        _number(figure, "sm_clock_mhz"),
        # Only a matrix product certainly keeps the clocked units busy.
        figure.unit == "TFLOP/s" and IDLE not in reasons,
        f"probe {figure.probe}, {figure.quantity}",
        _number(figure, "temperature_c"),
        _number(figure, "power_w"),
    )


def _number(figure: Measurement, key: str) -> float | None:
    value = figure.details.get(key)
    return float(value) if isinstance(value, int | float) else None


def held_by(case: Case, looks: list[Look], wanted: tuple[str, ...]) -> list[Proof]:
    """Which of the wanted reasons hold the clocks at each look."""
    return [
        (
            f"clocks of {case.name(look.gpu.address)} are held by",
            ", ".join([*(w for w in look.reasons if w in wanted), *_circumstances(look)]),
            look.source,
        )
        for look in looks
    ]


def _circumstances(look: Look) -> list[str]:
    found = []
    if look.clock_mhz is not None:
        most = f" of {look.gpu.clock_sm_max_mhz}" if look.gpu.clock_sm_max_mhz else ""
        found.append(f"at {look.clock_mhz:.0f}{most} MHz")
    if look.temperature_c is not None:
        found.append(f"{look.temperature_c:.0f} °C")
    return found


def addresses_of(looks: list[Look]) -> list[str]:
    """The GPUs that were looked at, each once."""
    return list(dict.fromkeys(look.gpu.address for look in looks))

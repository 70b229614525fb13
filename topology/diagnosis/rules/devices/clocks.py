"""Clocks and power: what the hardware, the driver, a setting or a power limit holds down."""

from collections.abc import Sequence

import msgspec

from ....hardware.vendors import AMD, NVIDIA
from ....model.finding import Finding
from ....model.machine import Gpu
from ....model.readings import GpuReading
from ....model.severity import NOTICE, SLOW, Severity
from ....model.snapshot import Measurement
from ... import vendors
from ...case import Case
from ...gpu_rule import of_gpus
from ...rule import Found, Proof, Rule, Step, faulty, needed

# A power cap under load is normal and never a finding: a large matrix product always reaches the
# limit of an H100.
HARDWARE_WORDS = ("hw slowdown", "hw thermal", "hw power brake")
_HARDWARE = frozenset(HARDWARE_WORDS)
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
    found = [
        Look(
            gpu,
            now.throttle_reasons,
            now.clock_sm_mhz,
            _is_busy(now, now.throttle_reasons, busy_percent),
            vendors.source([gpu], _NVML),
            now.temperature_c,
            now.power_watts,
        )
        for gpu, now in case.read
        if now.throttle_reasons is not None
    ]
    examined = {gpu.address for gpu in case.gpus}
    for figure in case.snapshot.measurements:
        gpu = case.machine.gpu(figure.src or "")
        if gpu is not None and gpu.address in examined and not figure.on_cpu:
            look = _while_measured(gpu, figure)
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


def _is_busy(now: GpuReading, reasons: Sequence[str], busy_percent: float) -> bool | None:
    if IDLE in reasons:
        return False
    load = now.utilization_percent
    return None if load is None else load >= busy_percent


def looks_needed(case: Case) -> list[Look]:
    """All looks at the examined GPUs; ends the rule where there is none."""
    return needed(looks_at(case, case.threshold(HELD, "busy_percent")))


def _hardware(case: Case) -> Found:
    hit = [look for look in looks_needed(case) if not _HARDWARE.isdisjoint(look.reasons)]
    # On an idle GPU the plain bit alone costs nothing measurable.
    resting = [
        look
        for look in hit
        if look.busy is False and set(look.reasons).isdisjoint(("hw thermal", "hw power brake"))
    ]
    loud = [look for look in hit if look not in resting]
    slowed = addresses_of(loud)
    rest = [address for address in addresses_of(resting) if address not in slowed]
    groups = ((SLOW, loud, slowed), (NOTICE, resting, rest))
    return [
        _hardware_finding(case, severity, looks, addresses)
        for severity, looks, addresses in groups
        if addresses
    ]


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
        vendors.step(
            [look.gpu for look in looks],
            "Watch whether it stays, and which reason it is.",
            nvidia="nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER",
            amd="amd-smi metric --power --temperature --clock",
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


_SETTINGS = ("applications clocks", "sync boost")
_EXCUSED = (*HARDWARE_WORDS, HEAT, IDLE, "sw power cap", "display clock")
"""Reasons that explain a low clock without any setting."""


def _held(case: Case) -> Found:
    known = needed(
        [
            (look.gpu, look, (look.clock_mhz or 0) / look.gpu.clock_sm_max_mhz)
            for look in looks_at(case, case.threshold(HELD, "busy_percent"))
            if look.clock_mhz is not None and look.gpu.clock_sm_max_mhz and look.busy is not None
        ]
    )
    hit = faulty([(gpu, look, share) for gpu, look, share in known if _is_held(case, look, share)])
    return of_gpus(
        HELD,
        case,
        hit,
        SLOW,
        "a setting holds the clocks of {gpus} low",
        (
            "SM clock of {gpu} under load",
            lambda gpu, look, _: (
                f"{look.clock_mhz:.0f} of {gpu.clock_sm_max_mhz} MHz; reasons: "
                f"{', '.join(look.reasons) or 'none'}"
            ),
            lambda gpu, look, _: (
                look.source + ("" if gpu.vendor == AMD.id else ", nvmlDeviceGetClockInfo")
            ),
        ),
        impact=f"What computes runs at {100 * min(share for *_, share in hit):.0f} % of the clock, "
        "and a job over several GPUs at the pace of the slowest; copies over "
        f"{case.words.link} and PCIe suffer less.",
        fix=[
            vendors.step(
                [gpu for gpu, _, _ in hit],
                "Let the driver choose the clocks again.",
                root=True,
                nvidia="nvidia-smi -rgc && nvidia-smi -rac",
                amd="amd-smi reset --clocks",
            )
        ],
    )


def _is_held(case: Case, look: Look, share: float) -> bool:
    reasons = set(look.reasons)
    if not look.busy or not reasons.isdisjoint(_EXCUSED):
        return False
    if not reasons.isdisjoint(_SETTINGS):
        return share < case.threshold(HELD, "named_share")
    # Locked clocks (nvidia-smi -lgc) show no reason of their own. An unnamed bit might be one, and
    # near the power limit the cap's bit comes and goes while the clock stays low.
    unnamed = any(word.startswith("unknown") for word in look.reasons)
    if unnamed or look.power_watts is None or not look.gpu.power_limit_watts:
        return False
    spare = look.power_watts < case.threshold(HELD, "power_share") * look.gpu.power_limit_watts
    return spare and share < case.threshold(HELD, "unnamed_share")


def _thermal(case: Case) -> Found:
    hit = faulty([look for look in looks_needed(case) if HEAT in look.reasons])
    addresses = addresses_of(hit)
    return THERMAL.finding(
        NOTICE,
        f"the driver lowers clocks because of heat on {case.names(addresses)}",
        devices=addresses,
        evidence=held_by(case, hit, (HEAT,)),
        impact="The GPU runs a little below its clock; with more heat it slows down hard.",
        fix=["Check fans, air flow and the inlet temperature of the node."],
    )


def _power(case: Case) -> Found:
    limits = [
        (gpu, gpu.power_limit_watts or 0.0, gpu.power_limit_default_watts)
        for gpu in case.having("power_limit_watts", "power_limit_default_watts")
    ]
    # The firmware of a laptop moves the limit between processor and GPU by itself.
    known = needed(
        [
            (gpu, limit, usual)
            for gpu, limit, usual in limits
            if usual and "laptop" not in (gpu.name or "").lower()
        ]
    )
    least = case.threshold(POWER, "minimum_share")
    low = faulty([(gpu, limit, usual) for gpu, limit, usual in known if limit < least * usual])
    gpus = [gpu for gpu, _, _ in low]
    worst = min(limit / usual for _, limit, usual in low)
    indices = ",".join(str(gpu.index) for gpu in gpus if gpu.index is not None)
    command = f"nvidia-smi -i {indices} -pl {low[0][2]:.0f}"
    return of_gpus(
        POWER,
        case,
        low,
        SLOW,
        "the power limit of {gpus} is below its default",
        (
            "power limit",
            lambda _, limit, usual: f"{limit:.0f} W; by default {usual:.0f} W",
            lambda gpu, *_: (
                "NVML nvmlDeviceGetEnforcedPowerLimit"
                if gpu.vendor == NVIDIA.id
                else "amd-smi static"
            ),
        ),
        impact=f"Matrix products get {100 * worst:.0f} % of the power and lower clocks; "
        "memory and links keep theirs.",
        fix=[
            vendors.step(
                gpus,
                "Set the default again, unless the site limits power on purpose.",
                root=True,
                nvidia=command if indices else "",
            )
        ],
    )


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
RULES = (HARDWARE, HELD, THERMAL, POWER)

"""Which number a program uses for which GPU."""

from ....hardware.vendors import NVIDIA
from ....model.finding import Finding
from ....model.machine import Gpu
from ....model.severity import BY_DESIGN, NOTICE
from ...case import Case
from ...rule import Found, Proof, Rule
from ...shared.gpu_lists import VISIBLE, listed_gpus, served_gpus

ORDER, BY_BUS = "CUDA_DEVICE_ORDER", "PCI_BUS_ID"
LIMIT_SHOWN = 8


def _check(case: Case) -> Found:
    served = served_gpus(case)
    if not case.variables_read:
        return None
    if not served or any(gpu.vendor != NVIDIA.id or gpu.mig_enabled for gpu in served):
        return None
    listed = case.variables.get(VISIBLE)
    mixed = len({gpu.name for gpu in served if gpu.name}) > 1
    by_bus = case.variables.get(ORDER, ("",))[0] == BY_BUS
    if listed is None:
        return [_mixed(case)] if mixed and not by_bus else []
    entries = [entry.strip() for entry in listed[0].split(",")]
    if len(set(entries)) < len(entries):
        return None  # what CUDA makes of a GPU named twice is not documented
    found = listed_gpus(case, entries)
    if not found:
        return _none(case, listed[0])
    if len(found) < len(entries):
        return _short(case, listed[0], entries, found)
    numeric = all(entry.isdecimal() for entry in entries)
    if mixed and numeric and not by_bus:
        return _mixed(case)
    if found == served:
        return []
    return _other(case, listed[0], found)


def _evidence(case: Case, value: str) -> list[Proof]:
    origin = case.variables[VISIBLE][1]
    return [(VISIBLE, value or "(empty)", origin)]


def _other(case: Case, value: str, found: list[Gpu]) -> Finding:
    shown = [f"cuda:{i} is {case.name(gpu)}" for i, gpu in enumerate(found[:LIMIT_SHOWN])]
    more = len(found) - LIMIT_SHOWN
    return DEVICE_ORDER.finding(
        BY_DESIGN,
        f"programs started here count {len(found)} of {len(served_gpus(case))} GPUs their own way",
        evidence=_evidence(case, value),
        impact="; ".join(shown)
        + (f"; and {more} more" if more > 0 else "")
        + ". nvidia-smi and the driver's library do not heed the variable.",
    )


def _short(case: Case, value: str, entries: list[str], found: list[Gpu]) -> Finding:
    bad = entries[len(found)]
    return DEVICE_ORDER.finding(
        NOTICE,
        f"{VISIBLE} ends at {bad or 'an empty entry'!r} for CUDA",
        evidence=_evidence(case, value),
        impact=f"CUDA takes {len(found)} of {len(entries)} entries: it stops at the first "
        "that names no GPU of this machine. A job with more ranks fails.",
        fix=[f"Name GPUs that are there. $ export {VISIBLE}={_all(case)}"],
    )


def _none(case: Case, value: str) -> Finding:
    return DEVICE_ORDER.finding(
        NOTICE,
        f"{VISIBLE} hides every GPU",
        evidence=_evidence(case, value),
        impact="A program started here finds no CUDA device; one with another environment does: "
        "the node itself is not at fault.",
        fix=[f"Take the variable away. $ unset {VISIBLE}"],
    )


def _mixed(case: Case) -> Finding:
    names = sorted({gpu.name for gpu in served_gpus(case) if gpu.name})
    return DEVICE_ORDER.finding(
        NOTICE,
        "cuda:N need not be GPU N: the GPUs are of several models",
        evidence=[
            ("models", ", ".join(names), "NVML nvmlDeviceGetName"),
            (ORDER, case.variables.get(ORDER, ("not set",))[0], "environment"),
        ],
        impact="CUDA puts the fastest GPU first, nvidia-smi goes by PCI address.",
        fix=[f"Let CUDA count by PCI address. $ export {ORDER}={BY_BUS}"],
    )


def _all(case: Case) -> str:
    return ",".join(str(number) for number in range(len(served_gpus(case))))


DEVICE_ORDER = Rule(
    id="device-order",
    family="D29",
    title="CUDA numbers that are not those of nvidia-smi",
    evidence="CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER and the models of the GPUs",
    vendor=NVIDIA.id,
    disproof="the PCI address that the program itself prints for cuda:N",
    sources=("CUDA programming guide, environment variables", "pytorch/tensorpipe#266"),
    check=_check,
    implied_by=("gpu-models-mixed",),
)

RULES = (DEVICE_ORDER,)

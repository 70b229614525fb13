"""GPUs as a variable or an option lists them."""

import re

from ...model.machine import Gpu
from ...sources.collect import ONLY_PCI
from ..case import Case

VISIBLE = "CUDA_VISIBLE_DEVICES"


def served_gpus(case: Case) -> list[Gpu]:
    """GPUs that CUDA can number. A container shows others on PCI that it was not given."""
    return [gpu for gpu in case.machine.gpus if gpu.why("uuid") != ONLY_PCI]


def visible(case: Case) -> list[Gpu]:
    """Examined GPUs that a program started here finds; all of them where that is not known."""
    value = case.variables.get(VISIBLE, ("", ""))[0]
    entries = [entry.strip() for entry in value.split(",") if entry.strip()]
    seen = {gpu.address for gpu in listed_gpus(case, entries)}
    found = [gpu for gpu in case.gpus if gpu.address in seen]
    return found or [gpu for gpu in case.gpus if gpu.why("uuid") != ONLY_PCI] or list(case.gpus)


def listed_gpus(case: Case, entries: list[str]) -> list[Gpu]:
    """GPUs that CUDA reads from a list: it stops at the first entry that names none.

    CUDA programming guide, environment variables: indices, or beginnings of UUIDs.
    """
    found: list[Gpu] = []
    gpus = served_gpus(case)
    for entry in entries:
        named: Gpu | None = None
        if re.fullmatch(r"\d{1,6}", entry, re.ASCII) and int(entry) < len(gpus):
            named = gpus[int(entry)]
        elif entry.startswith("GPU-") and len(entry) > 4:
            fit = [gpu for gpu in gpus if (gpu.uuid or "").lower().startswith(entry.lower())]
            named = fit[0] if len(fit) == 1 else None
        if named is None:
            break
        found.append(named)
    return found


def selected(gpus: list[Gpu]) -> str:
    """The option of nvidia-smi that picks these GPUs, with a blank before it; "" for all."""
    numbers = [gpu.index for gpu in gpus]
    return " -i " + ",".join(map(str, numbers)) if None not in numbers else ""

"""The processes of one <gpu> of `nvidia-smi -q -x`."""

from __future__ import annotations

from .....model.readings import GpuProcess
from .....sources.files.printed import Printed
from .....sources.nvidia.smi_values import MAX_ITEMS, NVIDIA_SMI

_KINDS = {"c": "compute", "g": "graphics", "m": "mps"}


def processes(v: Printed) -> tuple[GpuProcess, ...] | None:
    """List each process once per kind of context; None where nvidia-smi lists none."""
    listed = v.raw.find("processes")
    if listed is None:
        v.miss("processes", "not in this nvidia-smi -q -x")
        return None
    if (listed.text or "").strip():  # "N/A", or a sentence where the list would be
        v.miss("processes", f"nvidia-smi prints {' '.join((listed.text or '').split())[:80]}")
        return None
    found: dict[tuple[int, str], GpuProcess] = {}
    for item in listed.findall("process_info")[:MAX_ITEMS]:
        own = Printed(item, NVIDIA_SMI)
        pid = own.whole("pid", "pid")
        used = own.size("memory_bytes", "used_memory")
        if pid is None or not 0 <= pid < 2**32:
            continue
        for letter in (own.text("kind", "type") or "").lower().split("+"):
            kind = _KINDS.get(letter)
            if kind is not None:
                gaps = own.gaps if used is None else ()
                found[pid, kind] = GpuProcess(pid=pid, kind=kind, memory_bytes=used, gaps=gaps)
    return tuple(found.values())

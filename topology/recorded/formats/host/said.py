"""The host as single texts describe it: a Host with a gap for all that a text leaves out."""

from __future__ import annotations

from ....model.record import gaps_of
from ....model.surroundings import Host

_FIELDS = (
    "hostname", "kernel", "os_name", "cpu_vendor", "cpu_model_name", "cpu_family", "cpu_model",
    "architecture", "hypervisor", "container", "memory_bytes", "shm_bytes", "memlock_bytes",
    "cmdline_flags", "numa_balancing", "nvidia_module", "device_nodes",
)  # fmt: skip


def host_of(tool: str, **known: object) -> Host:
    """A host with these values; a value of None is known to be none, such as no hypervisor."""
    values = {name: value for name, value in known.items() if value is not None}
    gaps = gaps_of((field for field in _FIELDS if field not in known), f"not in {tool}")
    return Host(gaps=gaps, **values)  # type: ignore[arg-type]


def ranges(numbers: list[int]) -> str:
    """Numbers as the kernel lists CPUs: "0-31,64-95"."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in parts)

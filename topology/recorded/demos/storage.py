"""A demo's answer for the source `storage`: the drives of its PCI tree."""

from __future__ import annotations

from typing import Any

from .pci import ABSENT
from .pci_tree import Function, FunctionKind, paths

MODEL = "SAMSUNG MZWLR3T8HBLS-00007"
"""A PM1733 of 3.84 TB; its PCI function in pci_tree.py is 144d:a824."""
SECTORS = 7_501_476_528
"""Of 512 bytes: 3.84 TB by the capacity formula of the trade (SFF-8447)."""


def answer(functions: tuple[Function, ...]) -> dict[str, Any]:
    """What the reader of `storage` would find; {} where the node has no drive."""
    places = paths(functions)
    drives = {
        f"nvme{function.number}": {
            "path": f"{places[function.address]}/nvme/nvme{function.number}",
            "transport": "pcie",
            "model": MODEL,
            "numa_node": str(function.numa),
            "sizes": [str(SECTORS)],
        }
        for function in functions
        if function.kind is FunctionKind.NVME
    }
    return {"demo": True, "absent": ABSENT, "drives": drives} if drives else {}

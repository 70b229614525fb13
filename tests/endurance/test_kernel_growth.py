"""Texts of the kernel's lines about one kind of fault: twice as many cost twice as much, no more.

Looks for patterns are counted, not seconds: they are most of the work. A driver that fails writes
megabytes of such lines.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from gputop.__main__ import run
from tests.grid import share

FEW = 100
MOST_OF_A_LINE = 25
"""Patterns that are looked for in each further line, by all who read it together."""
BEFORE = "".join(f"epoch {step} of training has been done\n" for step in range(220))
"""More lines than those whose words are kept as what stands around a failure."""

LINES = {
    "xid": "[{0}.5] NVRM: Xid (PCI:0000:{0:02x}:00): 31, pid={0}, name=python3, Ch 00000008",
    "sxid": "[{0}.5] nvidia-nvswitch{0}: SXid (PCI:{0:04x}:05:00.0): 12028, Non-fatal, Link 32 "
    "egress non-posted PRIV error (First)",
    "aer": "[{0}.5] pcieport 0000:{0:02x}:01.1: AER: Corrected error received: 0000:{0:02x}:00.0",
    "amdgpu": "[{0}.5] amdgpu {0:04x}:83:00.0: amdgpu: GPU reset begin!",
    "kfd": "[{0}.5] kfd kfd: amdgpu: Failed to evict queue {0}",
    "mlx5": "[{0}.5] mlx5_core {0:04x}:65:00.0 ens65np0: Link down",
    "edac": "[{0}.5] EDAC MC{0}: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0",
    "oom": "[{0}.5] Out of memory: Killed process {0} (python3) total-vm:813644kB, UID:1000",
    "probe": "[9.114] amdgpu: probe of 0000:83:00.{0} failed with error -12",
    "no fault": "[{0}.5] nvidia-nvlink: Nvlink Core is being initialized, device {0}",
}
COMMANDS = (["check", "--quick", "--from"], ["log"], ["explain", "0", "1", "--from"])


def looks(command: list[str], path: Path, lines: str) -> int:
    """How often a command looks for a pattern in a text that ends in these lines."""
    path.write_text(BEFORE + lines)
    count = 0

    def seen(_: object, event: str, called: object) -> None:
        nonlocal count
        if event == "c_call":
            count += isinstance(getattr(called, "__self__", None), re.Pattern)

    sys.setprofile(seen)
    try:
        run([*command, str(path)])
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize(
    ("kind", "command"),
    share([(kind, command) for kind in LINES for command in COMMANDS], len(COMMANDS)),
)
def test_lines_of_one_kind_cost_the_same(kind: str, command: list[str], tmp_path: Path) -> None:
    path = tmp_path / "dmesg.txt"
    lines = [LINES[kind].format(place) + "\n" for place in range(2 * FEW)]
    looks(command, path, lines[0])  # tables that are read once
    few, most = (looks(command, path, "".join(lines[:number])) for number in (FEW, 2 * FEW))
    assert most - few < FEW * MOST_OF_A_LINE

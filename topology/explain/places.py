"""How far a NIC is from a GPU, in a word."""

from __future__ import annotations

NEAR, SAME_CPU, FAR = "near", "same CPU", "far"
"""Below the same PCIe switch or chip; below the same CPU; below another one."""

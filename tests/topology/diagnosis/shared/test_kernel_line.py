"""How an argument is added to the kernel's command line."""

from __future__ import annotations

from gputop.topology.diagnosis.rule import step
from gputop.topology.diagnosis.shared.kernel_line import kernel_argument


def test_a_cure_on_the_kernel_s_command_line_names_both_ways() -> None:
    fix = step(kernel_argument("Start the kernel with iommu=pt.", "iommu=pt"))
    assert fix.command == "grubby --update-kernel=ALL --args=iommu=pt"
    assert "add iommu=pt to GRUB_CMDLINE_LINUX" in fix.text
    assert fix.needs_root

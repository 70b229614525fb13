"""Arguments of the kernel's command line, as a fix."""

from __future__ import annotations

from ...model.page import Fix


def kernel_argument(text: str, argument: str) -> Fix:
    """Give the command of Red Hat and its relatives, and the file to edit on other systems."""
    return Fix(
        text=f"{text} Without grubby (Debian, Ubuntu): add {argument} to GRUB_CMDLINE_LINUX in "
        "/etc/default/grub, then run update-grub.",
        command=f"grubby --update-kernel=ALL --args={argument}",
        needs_root=True,
    )

"""Arguments of the kernel's command line, as a fix."""


def kernel_argument(text: str, argument: str) -> str:
    """Give the command of Red Hat and its relatives, and the file to edit on other systems."""
    return (
        f"{text} Without grubby (Debian, Ubuntu): add {argument} to GRUB_CMDLINE_LINUX in "
        f"/etc/default/grub, then run update-grub. # grubby --update-kernel=ALL --args={argument}"
    )

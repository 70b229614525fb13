"""Arguments of the kernel's command line, as a fix."""


def kernel_argument(text: str, argument: str) -> str:
    """Give the command of Red Hat and its relatives, and the file to edit on other systems."""
    elsewhere = f"Without grubby (Debian, Ubuntu): add {argument} to GRUB_CMDLINE_LINUX in "
    return (
        f"{text} It takes a restart of the node. {elsewhere}/etc/default/grub, then run "
        f"update-grub. # grubby --update-kernel=ALL --args={argument}"
    )

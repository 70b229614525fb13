"""Another program on PyPI is called gputop too, and installs files of the same names.

Whatever is installed later overwrites `gputop/__init__.py` and the command `gputop`; uninstalling
the other one removes both files, although they are ours by then.
"""

from __future__ import annotations

import os
import re

from gputop.exits import OWN_ERROR
from gputop.terminal.output import print_problem

HERE = os.path.dirname(os.path.abspath(__file__))
MEND = "`pip uninstall gputop`, then `pip install --force-reinstall --no-deps gputopo`"
_INSTALLED = re.compile(r"gputop-(?P<version>[^-]+?)(-[^-]+)?\.(dist|egg)-info")


def other_version(folder: str = HERE) -> str | None:
    """Version of the other distribution among those installed beside the folder of the package.

    None without one. Only names are read: importing `importlib.metadata` takes much longer.
    """
    try:
        names = os.listdir(os.path.dirname(os.path.dirname(folder)))
    except OSError:
        return None
    found = (_INSTALLED.fullmatch(name) for name in names)
    return next((match["version"] for match in found if match), None)


def other_gputop(folder: str = HERE) -> str:
    """Say in one line that the other one is here too; "" where it is not."""
    version = other_version(folder)
    if version is None:
        return ""
    return (
        f"another program's distribution gputop {version} is installed over the same files as this "
        f"one (gputopo), and its removal or upgrade breaks this one: {MEND}"
    )


def give_up() -> int:
    """Say in one line that files of this program are not there any more; gives the exit code."""
    version = other_version()
    who = "" if version is None else f" by gputop {version}, another program's distribution"
    print_problem(f"files of gputopo were overwritten or removed{who}: {MEND}")
    return OWN_ERROR

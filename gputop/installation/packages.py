"""What gputop needs of Python and does not get, a package above all: one line says so.

Only what comes with Python is imported here: any other package may be the one that is missing.
"""

from __future__ import annotations

import shlex
import sys

from gputop.exits import CANNOT_TELL, OWN_ERROR

DISTRIBUTIONS = {
    "markdown_it": "markdown-it-py",
    "pynvml": "nvidia-ml-py",
}
"""What pip calls a package, where that is not its name in Python."""


def give_up(error: ImportError) -> int:
    """Say in one line which package cannot be imported; gives the exit code."""
    text, code = import_failure(error)
    _print(text)
    return code


def refuse_python() -> int:
    """Say in one line that this Python is too old; gives the exit code."""
    _print(f"Python 3.10 or newer is needed; this is {_python()}")
    return CANNOT_TELL


def import_failure(error: ImportError) -> tuple[str, int]:
    """What to say of it, and the exit code."""
    name = (error.name or "").partition(".")[0]
    if name in ("", "gputop"):
        return f"{_python()} cannot import a part of gputop: {error}", OWN_ERROR
    install = shlex.join([sys.executable, "-m", "pip", "install", "--upgrade"])
    distribution = DISTRIBUTIONS.get(name, name)
    why = "" if isinstance(error, ModuleNotFoundError) else f" ({error})"
    return (
        f"{_python()} cannot import {name}, which gputop needs{why}: `{install} {distribution}`",
        CANNOT_TELL,
    )


def _python() -> str:
    return f"Python {sys.version.split()[0]} at {sys.executable}"


def _print(text: str) -> None:
    if sys.stderr is not None:
        shown = "".join(letter if letter.isprintable() else "?" for letter in text)
        sys.stderr.write(f"gputop: {shown}\n")
        sys.stderr.flush()

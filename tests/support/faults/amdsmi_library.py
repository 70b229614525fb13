"""libamd_smi.so as a real library in C: the real binding finds and loads it as it does ROCm's.

Every function hands its arguments to one function of ours, which a machine stands behind.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

FILE = "libamd_smi.so"
UNKNOWN_ERROR = 0xFFFFFFFF
_COMPILERS = ("cc", "gcc", "clang")
_NAMED = re.compile(r"_libraries\['libamd_smi\.so'\]\.(\w+)")
_ARGUMENTS = 6
"""More than any function that is asked has; what a caller does not pass is not looked at."""
_HOOK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, *[ctypes.c_void_p] * _ARGUMENTS)
_HEAD = """
typedef int (*hook)(int, void *, void *, void *, void *, void *, void *);
static hook machine;
void stand_in(hook given) { machine = given; }
"""
_FUNCTION = """
int NAME(void *a, void *b, void *c, void *d, void *e, void *f)
{ return machine ? machine(NUMBER, a, b, c, d, e, f) : 32; }
"""


class NoCompiler(Exception):  # noqa: N818 - not an error: not every machine has one
    """No C compiler is here."""


class Machine(Protocol):
    """What stands behind the library."""

    def call(self, binding: Any, name: str, arguments: Sequence[int | None], types: Any) -> int:
        """Answer a call by writing where its pointers point; a status of amdsmi."""


def build(wheel: Path, folder: Path) -> Path:
    """Unpack a wheel and lay a library for it beside it, as ROCm does. Raises NoCompiler."""
    compiler = next(filter(None, map(shutil.which, _COMPILERS)), None)
    if compiler is None:
        raise NoCompiler(f"none of {', '.join(_COMPILERS)} is installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    names = _names(folder)
    (folder / "lib").mkdir(exist_ok=True)
    code = _HEAD + "".join(
        _FUNCTION.replace("NAME", name).replace("NUMBER", str(number))
        for number, name in enumerate(names)
    )
    command = [compiler, "-x", "c", "-shared", "-fPIC", "-o", str(folder / "lib" / FILE), "-"]
    subprocess.run(command, input=code, text=True, check=True, capture_output=True)
    return folder


def _names(folder: Path) -> list[str]:
    """The functions that the binding wants, in one order."""
    text = (folder / "amdsmi/amdsmi_wrapper.py").read_text()
    return sorted(set(_NAMED.findall(text)))


class AmdsmiStandIn:
    """The library of a folder in this process; `machine` may be changed at any time."""

    def __init__(self, folder: Path) -> None:
        self.machine: Machine | None = None
        self.broken: list[str] = []
        """What went wrong in the stand-in itself."""
        self._names = _names(folder)
        self._hook = _HOOK(self._answer)  # kept: C holds nothing but its address
        self._library = ctypes.CDLL(str(folder / "lib" / FILE))
        self._library.stand_in(self._hook)

    def _answer(self, number: int, *arguments: int | None) -> int:
        name = self._names[number]
        binding = sys.modules.get("amdsmi")
        if self.machine is None or binding is None:
            return UNKNOWN_ERROR
        types = getattr(binding.amdsmi_wrapper, name).argtypes
        try:
            return self.machine.call(binding, name, arguments[: len(types)], types)
        except Exception as error:  # noqa: BLE001 - C cannot be told; a test looks here
            self.broken.append(f"{name}: {type(error).__name__}: {error}")
            return UNKNOWN_ERROR


LOADED: AmdsmiStandIn | None = None
"""The library of this process."""
_KEPT: list[AmdsmiStandIn] = []
"""What C may still call: a library is never unloaded."""


def load(folder: Path) -> None:
    """Make the folder of `build` what this process finds as ROCm and as amdsmi, for good."""
    global LOADED
    os.environ["ROCM_PATH"] = str(folder)
    sys.path.insert(0, str(folder))
    LOADED = AmdsmiStandIn(folder)
    _KEPT.append(LOADED)

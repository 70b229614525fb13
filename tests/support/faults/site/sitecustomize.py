"""Puts the stand-in below the real binding: Python runs this with the folder in PYTHONPATH.

The variable that plan.py names says which machine it is and what goes wrong.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path
from typing import Any

_FILE = "libnvidia-ml.so.1"
_REAL = ctypes.CDLL


def _load(name: Any, *arguments: Any, **more: Any) -> Any:
    if name != _FILE or "GPUTOP_FAULTS" not in os.environ:
        return _REAL(name, *arguments, **more)
    root = str(Path(__file__).resolve().parents[4])
    if root not in sys.path:
        sys.path.append(root)
    import pynvml

    from tests.support.faults.machine import library_of
    from tests.support.faults.plan import VARIABLE, read_plan

    plan = read_plan(os.environ[VARIABLE])
    return library_of(plan.profile, plan.faults, pynvml)


ctypes.CDLL = _load  # type: ignore[assignment, misc]

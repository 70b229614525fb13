"""Stands in for the binding in whole-program tests: put this folder on PYTHONPATH.

GPUTOP_FAKE_NVML says what goes wrong: "fine", "block-init" (the first call blocks), "block-later"
(calls block from the moment on when the file GPUTOP_FAKE_LATER exists), "lost" (GPU 1 vanishes at
that moment), "absent".
Blocking calls release the GIL, as ctypes does for the real library. The stand-in library
(tests/support/faults) is a machine whose faults are there from the start; here they come later.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[2]))

from tests.support import nvml_fake

NVMLError = nvml_fake.NVMLError
_MODE = os.environ.get("GPUTOP_FAKE_NVML", "fine")
_LATER = os.environ.get("GPUTOP_FAKE_LATER", "")
_BINDING = nvml_fake.Binding(gpus=2)
_NAME = os.environ.get("GPUTOP_FAKE_NAME", "NVIDIA Fake GPU")
_BINDING.answers["nvmlDeviceGetName"] = lambda handle: _NAME
_BINDING.answers["nvmlDeviceGetIndex"] = lambda handle: handle
if _MODE == "absent":
    _BINDING.start_error = nvml_fake.LibraryNotFound


def _late() -> bool:
    return os.path.exists(_LATER)


def _act() -> None:
    if _MODE == "block-init" or (_MODE == "block-later" and _late()):
        time.sleep(300)
    if _MODE == "lost" and _late():
        _BINDING.lost.add(1)


def nvmlInit() -> None:  # noqa: N802 - NVML's name
    """Begin; may block."""
    _act()
    _BINDING.nvmlInit()


def __getattr__(name: str) -> Any:
    found = getattr(_BINDING, name)
    if not callable(found) or isinstance(found, type):
        return found

    def call(*arguments: Any) -> Any:
        _act()
        return found(*arguments)

    return call

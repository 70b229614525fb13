"""The probes: a module each, with `SPEC` and `run(request, emit)`."""

import importlib
from typing import Any

NAMES = (
    "p2p", "p2p-concurrent", "host", "memory", "gemm", "collectives", "train-step", "launch",
    "nccl",
)  # fmt: skip
"""As written on the command line; in a module's name a dash is an underscore."""


def load(name: str) -> Any:
    """Import one probe's module; KeyError for a name that is not in `NAMES`."""
    if name not in NAMES:
        raise KeyError(name)
    return importlib.import_module("." + name.replace("-", "_"), __name__)

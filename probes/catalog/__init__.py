"""The probes: one module each, with `SPEC` and `run(request, emit)`."""

import importlib
from typing import Any

MODULES = {
    "p2p": "p2p.probe",
    "p2p-concurrent": "p2p.concurrent",
    "host": "host.probe",
    "memory": "memory",
    "gemm": "gemm.probe",
    "collectives": "collectives.probe",
    "train-step": "train_step.probe",
    "launch": "launch.probe",
    "nccl": "nccl.probe",
}
"""Name of a probe on the command line -> its module."""
NAMES = tuple(MODULES)


def load(name: str) -> Any:
    """Import one probe's module; KeyError for a name that is not in `NAMES`."""
    return importlib.import_module("." + MODULES[name], __name__)

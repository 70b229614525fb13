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
BETWEEN_NODES = {"net": "net.probe"}
"""The same of probes that use the network: no suite has them, and each has its own command."""


def load(name: str) -> Any:
    """Import one probe's module; KeyError for a name that no probe has."""
    return importlib.import_module("." + {**MODULES, **BETWEEN_NODES}[name], __name__)

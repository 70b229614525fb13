"""The probes: one module each, with `SPEC` and `run(request, emit)`."""

import importlib
import importlib.util
import json
import os
import sys
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


ADDED = "GPUTOP_ADDED_PROBES"
"""Variable that tells workers of probes from elsewhere: a JSON object of name -> file."""


def add(name: str, path: str) -> None:
    """Make known a probe whose file lies elsewhere, to workers too; of plugins alone."""
    os.environ[ADDED] = json.dumps({**_added(), name: path})


def load(name: str) -> Any:
    """Import one probe's module; KeyError for a name that no probe has."""
    module = {**MODULES, **BETWEEN_NODES}.get(name)
    if module is not None:
        return importlib.import_module("." + module, __name__)
    known = f"{__name__}.added_{name.replace('-', '_')}"
    if known not in sys.modules:
        # As a module of this package, so that its relative imports are those of a probe of ours.
        spec = importlib.util.spec_from_file_location(known, _added()[name])
        if spec is None or spec.loader is None:
            raise KeyError(name)
        sys.modules[known] = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(sys.modules[known])
        except BaseException:
            del sys.modules[known]
            raise
    return sys.modules[known]


def _added() -> "dict[str, str]":
    text = os.environ.get(ADDED)
    return dict(json.loads(text)) if text else {}

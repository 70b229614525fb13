"""Chooses the backend of a request: imports torch and looks for GPUs."""

import gc
import importlib
from collections.abc import Callable, Mapping
from typing import Any

from ..protocol.plaintext import one_line
from ..protocol.spec import ProbeStopped
from .cpus import Cpus
from .devices import Backend, hidden_by
from .gpus import Gpus

_OLDEST = (2, 1)


def open_backend(
    params: Mapping[str, Any], imported: Callable[[], object] = lambda: None
) -> Backend:
    """The devices of this worker; ProbeStopped with the reason if there are none.

    `device`: "gpu" (default) or "cpu" for the self-test of `count` made-up devices. `selftest`:
    fall back to that if torch sees no GPU. `imported` is called after the import, which only waits
    for file systems, and before the first question to the driver.
    """
    torch = _import_torch()
    imported()
    wants_cpu = params.get("device") == "cpu"
    if not wants_cpu and torch.cuda.is_available():
        return Gpus(torch)
    if wants_cpu or params.get("selftest") is True:
        count = params.get("count", 3)
        if type(count) is not int or not 1 <= count <= 16:
            raise ProbeStopped("refused", "The self-test takes a count of 1 to 16 devices.")
        return Cpus(torch, count)
    raise ProbeStopped("refused", _why_no_gpu(torch))


def _import_torch() -> Any:
    try:
        # An import makes a million objects that stay: looking for garbage takes a sixth of it.
        gc.disable()
        torch = importlib.import_module("torch")
    except ModuleNotFoundError as error:
        if error.name == "torch":
            raise ProbeStopped("no-torch", "This Python has no torch.") from error
        raise ProbeStopped("no-torch", f"torch does not import: {one_line(str(error))}") from error
    except (ImportError, OSError) as error:
        raise ProbeStopped("no-torch", f"torch does not import: {one_line(str(error))}") from error
    finally:
        gc.enable()
    version = str(getattr(torch, "__version__", ""))
    numbers = tuple(int(part) for part in version.split("+")[0].split(".")[:2] if part.isdigit())
    if len(numbers) < 2:
        raise ProbeStopped("no-torch", "What this Python imports as torch is not PyTorch.")
    if numbers < _OLDEST:
        raise ProbeStopped("refused", f"torch {version} is too old: 2.1 is needed.")
    return torch


def _why_no_gpu(torch: Any) -> str:
    build = torch.version.cuda or getattr(torch.version, "hip", None)
    if build is None:
        return f"No GPU: torch {torch.__version__} is a build without CUDA and without HIP."
    return f"No GPU: torch {torch.__version__} sees none{hidden_by()}."

"""Chooses the backend of a request: imports torch and looks for GPUs."""

import gc
import importlib
from collections.abc import Callable, Mapping
from typing import Any, Optional

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

    `imported` is called after the import of torch, which only waits for file systems, and before
    the first question to the driver.
    """
    made_up = self_test_devices(params)
    torch = _import_torch()
    imported()
    if made_up is not None:
        return Cpus(torch, made_up)
    if torch.cuda.is_available():
        return Gpus(torch)
    raise ProbeStopped("refused", _why_no_gpu(torch))


def self_test_devices(params: Mapping[str, Any]) -> Optional[int]:
    """How many devices the self-test makes up; None if real GPUs are asked for.

    `selftest` or `device` "cpu" ask for it, whatever GPUs there are; `count` is their number.
    """
    if params.get("device") != "cpu" and params.get("selftest") is not True:
        return None
    count = params.get("count", 3)
    if type(count) is not int or not 1 <= count <= 16:
        raise ProbeStopped("refused", "The self-test takes a count of 1 to 16 devices.")
    return count


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

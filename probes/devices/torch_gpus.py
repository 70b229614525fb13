"""The GPUs of a torch: the driver's own, in the driver's order, with torch's versions."""

import contextlib
import importlib
from collections.abc import Sequence
from typing import Any, Optional

from ..protocol.messages import DeviceRecord
from .devices import Versions
from .gpus import Gpus


class TorchGpus:
    """The GPUs that a torch computes on, CUDA and HIP alike."""

    kind = "gpu"

    def __init__(self, torch: Any, gpus: Gpus) -> None:
        self._torch = torch
        self._gpus = gpus

    def versions(self) -> Versions:
        """Software versions."""
        torch = self._torch
        nccl: Optional[str] = None
        with contextlib.suppress(ImportError, AttributeError, RuntimeError, TypeError):
            found = importlib.import_module("torch.cuda.nccl").version()
            nccl = ".".join(str(part) for part in found) if isinstance(found, tuple) else str(found)
        return Versions(
            torch=str(torch.__version__),
            cuda=getattr(torch.version, "cuda", None),
            hip=getattr(torch.version, "hip", None),
            driver=self._gpus.versions().driver,
            nccl=nccl,
            library="RCCL" if getattr(torch.version, "hip", None) else "NCCL",
        )

    def devices(self) -> "tuple[DeviceRecord, ...]":
        """Every device that torch sees; torch and driver count them alike."""
        return self._gpus.devices()[: self._torch.cuda.device_count()]

    def open(self, indices: Sequence[int]) -> None:
        """Create the contexts, which torch shares with the driver, all at once."""
        self._gpus.runtime.open(indices)

    def free_bytes(self, index: int) -> int:
        """Free memory of one opened device."""
        return self._gpus.free_bytes(index)

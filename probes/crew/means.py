"""By what a rank measures: torch, or the driver with NCCL or RCCL alone."""

import dataclasses
import importlib
import os
from collections.abc import Mapping
from typing import Any, Callable

from ..devices.devices import Devices, Versions
from ..devices.opening import open_driver, open_torch
from ..engine.nccl import Nccl, NcclError
from ..protocol.plaintext import one_line
from ..protocol.spec import ProbeStopped
from .accelerator import Accelerator, RankGroup
from .driver_accelerator import DriverAccelerator
from .library_group import LibraryGroup
from .store import Store
from .torch_accelerator import TorchAccelerator
from .torch_group import TorchGroup


@dataclasses.dataclass(frozen=True)
class Means:
    """Devices, and how one of them joins a group."""

    devices: Devices
    versions: Callable[[], Versions]
    join: "Callable[[int, Store, int, int], tuple[Accelerator, RankGroup]]"
    """From the index of an opened device, the store, the rank and the number of ranks."""


def open_means(params: Mapping[str, Any], library: str, asking: Callable[[], object]) -> Means:
    """Open what the request asks for; ProbeStopped with the reason where that is not possible.

    `library`: the file of NCCL or RCCL by itself; "" for torch. `asking` is called before the
    first question to the driver.
    """
    if not library:
        return _by_torch(params, asking)
    return _by_library(library, asking, named=params.get("library_named") is True)


def load_library(path: str, *, named: bool) -> Nccl:
    """NCCL or RCCL of a file; ProbeStopped if it is none.

    `named`: somebody asked for this file, so the probe is refused. A library that was only found
    leaves the measurement to torch.
    """
    try:
        return Nccl(path)
    except NcclError as error:
        raise _unusable(one_line(str(error), 300), named=named) from error


def _unusable(why: str, *, named: bool) -> ProbeStopped:
    if named:
        return ProbeStopped("refused", f"{why}.")
    return ProbeStopped("no-torch", f"Without torch: {why}. --nccl-lib names another library.")


def _by_library(path: str, asking: Callable[[], object], *, named: bool) -> Means:
    nccl = load_library(path, named=named)
    asking()
    gpus = open_driver()
    name, maker = os.path.basename(path), "AMD" if gpus.runtime.is_hip else "NVIDIA"
    if name.startswith("libnccl" if gpus.runtime.is_hip else "librccl"):
        raise _unusable(f"{one_line(path)} is not for GPUs of {maker}", named=named)

    def versions() -> Versions:
        library = "RCCL" if gpus.runtime.is_hip else "NCCL"
        loaded = {"nccl": nccl.version(), "nccl_path": path, "library": library}
        return dataclasses.replace(gpus.versions(), **loaded)

    def join(index: int, store: Store, rank: int, ranks: int) -> "tuple[Accelerator, RankGroup]":
        here = DriverAccelerator(gpus, index)
        return here, LibraryGroup(nccl, here.stream, store, rank, ranks)

    return Means(gpus, versions, join)


def _by_torch(params: Mapping[str, Any], asking: Callable[[], object]) -> Means:
    devices = open_torch(params, asking)
    torch = importlib.import_module("torch")
    dist = importlib.import_module("torch.distributed")
    cpu = devices.kind == "cpu"
    if not dist.is_available() or not (cpu or dist.is_nccl_available()):
        raise ProbeStopped("refused", f"torch {torch.__version__} is built without NCCL or RCCL.")

    def join(index: int, store: Store, rank: int, ranks: int) -> "tuple[Accelerator, RankGroup]":
        here = TorchAccelerator(torch, index, cpu=cpu)
        path = f"{store.path}-torch"
        return here, TorchGroup(here, dist, lambda: dist.FileStore(path, ranks), rank, ranks)

    return Means(devices, devices.versions, join)

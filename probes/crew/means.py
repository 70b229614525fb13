"""By what a rank measures: torch, or the driver with NCCL or RCCL alone."""

import dataclasses
import importlib
import os
from collections.abc import Mapping, Sequence
from typing import Any, Callable, Optional

from ..devices.devices import Devices, Versions
from ..devices.opening import open_driver, open_torch
from ..engine.nccl import Call, Nccl, NcclCommunicator, NcclError
from ..protocol.plaintext import one_line
from ..protocol.spec import ProbeStopped
from ..protocol.status import DeviceKind, Status
from .accelerator import Accelerator, NodesTopics, RankGroup, Topics
from .driver_accelerator import DriverAccelerator, Numbers
from .store import Store
from .torch_accelerator import TorchAccelerator
from .torch_group import TorchGroup


# The ranks of a run through NCCL or RCCL alone.
class LibraryGroup:
    """One rank's view of the group, whose device is current in this thread."""

    def __init__(
        self, nccl: Nccl, stream: Any, store: Topics, rank: int, ranks: int, name: str = ""
    ) -> None:
        """`stream`: of the device of this rank; all calls are queued on it.

        `name`: tells the groups apart whose ranks meet in one store.
        """
        self._nccl = nccl
        self._stream = stream
        self._store = store
        self._rank = rank
        self._ranks = ranks
        self._topic = f"unique id{name and ' of '}{name}"

    def across(self, topics: NodesTopics, rank: int, ranks: int) -> "LibraryGroup":
        """See RankGroup."""
        return LibraryGroup(self._nccl, self._stream, topics, rank, ranks)

    def part(self, name: str, members: Sequence[int]) -> "Optional[LibraryGroup]":
        """See RankGroup; a communicator of its own, for which this one need not be opened."""
        if self._rank not in members:
            return None
        rank, ranks = members.index(self._rank), len(members)
        return LibraryGroup(self._nccl, self._stream, self._store, rank, ranks, name)

    def open(self, *, eager: bool) -> None:
        """See RankGroup; the library has no other way than at once."""
        if self._rank == 0:
            self._store.set(self._topic, self._nccl.unique_id().hex())
        unique_id = bytes.fromhex(self._store.get(self._topic))
        made = self._nccl.communicator(unique_id, self._rank, self._ranks)
        self._communicator: NcclCommunicator = made

    def all_reduce(self, data: Numbers) -> Call:
        """See RankGroup."""
        return self._communicator.all_reduce(_part(data), self._stream)

    def all_gather(self, given: Numbers, result: Numbers) -> Call:
        """See RankGroup."""
        return self._communicator.all_gather(_part(given), result.address, self._stream)

    def reduce_scatter(self, given: Numbers, result: Numbers) -> Call:
        """See RankGroup."""
        return self._communicator.reduce_scatter(given.address, _part(result), self._stream)

    def all_to_all(self, given: Numbers, result: Numbers) -> Call:
        """See RankGroup; sends and receives, as torch does it."""
        return self.exchange(self._parts(given), self._parts(result))

    def broadcast(self, data: Numbers, root: int) -> Call:
        """See RankGroup."""
        return self._communicator.broadcast(_part(data), root, self._stream)

    def exchange(
        self, sends: "Sequence[tuple[Numbers, int]]", receives: "Sequence[tuple[Numbers, int]]"
    ) -> Call:
        """See RankGroup."""
        given = [(_part(numbers), peer) for numbers, peer in sends]
        taken = [(_part(numbers), peer) for numbers, peer in receives]
        return self._communicator.exchange(given, taken, self._stream)

    def _parts(self, numbers: Numbers) -> "list[tuple[Numbers, int]]":
        """One part for each rank."""
        size = numbers.count // self._ranks
        return [(numbers[rank * size : (rank + 1) * size], rank) for rank in range(self._ranks)]


def _part(numbers: Numbers) -> "tuple[int, int]":
    return numbers.address, numbers.count


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
        return ProbeStopped(Status.REFUSED, f"{why}.")
    return ProbeStopped(Status.NO_TORCH, f"Without torch: {why}. --nccl-lib names another library.")


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
    cpu = devices.kind == DeviceKind.CPU
    if not dist.is_available() or not (cpu or dist.is_nccl_available()):
        raise ProbeStopped(
            Status.REFUSED, f"torch {torch.__version__} is built without NCCL or RCCL."
        )

    def join(index: int, store: Store, rank: int, ranks: int) -> "tuple[Accelerator, RankGroup]":
        here = TorchAccelerator(torch, index, cpu=cpu)
        path = f"{store.path}-torch"
        return here, TorchGroup(here, dist, lambda: dist.FileStore(path, ranks), rank, ranks)

    return Means(devices, devices.versions, join)

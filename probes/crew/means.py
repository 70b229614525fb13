"""By what a rank measures: torch, or the driver with NCCL or RCCL alone."""

import ctypes
import dataclasses
import datetime
import importlib
import inspect
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Callable, Optional

from ..devices.devices import Devices, Versions
from ..devices.gpus import Gpus
from ..devices.opening import open_driver, open_torch
from ..engine.kernels import Kernels
from ..engine.memory import Memory
from ..engine.nccl import Nccl, NcclCommunicator, NcclError
from ..protocol.plaintext import one_line
from ..protocol.spec import ProbeStopped
from ..protocol.status import DeviceKind, Status
from .accelerator import Accelerator, Call, NodesTopics, RankGroup, Topics
from .store import Store
from .torch_accelerator import TorchAccelerator

# The device of a rank through the driver alone, beside NCCL or RCCL without torch.
_NUMBER_BYTES = 4
_CYCLES_PER_SECOND = 2_000_000_000
"""About the clock of a GPU: a hold at a lower clock may take longer than allowed."""


@dataclass(frozen=True)
class Numbers:
    """Numbers of float32 in the memory of a device."""

    address: int
    count: int

    def numel(self) -> int:
        """How many there are."""
        return self.count

    def __getitem__(self, part: slice) -> "Numbers":
        start, stop, _ = part.indices(self.count)
        return Numbers(self.address + _NUMBER_BYTES * start, stop - start)

    @property
    def memory(self) -> Memory:
        """Their bytes."""
        return Memory(self.address, _NUMBER_BYTES * self.count)


class DriverAccelerator:
    """One opened GPU of the driver; all work is queued on one stream."""

    kind = DeviceKind.GPU

    def __init__(self, gpus: Gpus, index: int) -> None:
        """ProbeStopped where our kernels, which check data and hold the GPU, do not run."""
        if gpus.kernels is None:
            text = f"Without torch nothing can check the data: {gpus.no_kernels}."
            raise ProbeStopped(Status.NO_TORCH, text)
        self._kernels: Kernels = gpus.kernels
        self._runtime = gpus.runtime
        self._index = index
        self.stream = self._runtime.stream(index)
        self._late = self._runtime.allocate_host(index, 4)
        self._never = self._runtime.allocate(index, 4)
        self._runtime.clear(index, self._never)

    @property
    def library(self) -> str:
        """See Accelerator."""
        return "RCCL" if self._runtime.is_hip else "NCCL"

    def wait(self) -> None:
        """See Accelerator."""
        self._runtime.synchronize(self._index)

    def numbers(self, count: int) -> Numbers:
        """See Accelerator."""
        size_bytes = max(1, _NUMBER_BYTES * count)
        made = Numbers(self._runtime.allocate(self._index, size_bytes).address, count)
        self.clear(made)
        return made

    def clear(self, numbers: Numbers) -> None:
        """See Accelerator."""
        self.wait()
        if numbers.count:
            self._runtime.clear(self._index, numbers.memory)

    def copy(self, to: Numbers, source: Numbers) -> None:
        """See Accelerator."""
        self._runtime.copy(to.address, source.address, _NUMBER_BYTES * to.count, self.stream)

    def fill(self, numbers: Numbers, seed: int) -> None:
        """See Accelerator."""
        self.wait()  # the kernel is on another stream
        self._kernels.pattern(self._index, numbers.memory, seed)

    def wrong_bytes(self, numbers: Numbers, seeds: Sequence[int], start: int = 0) -> int:
        """See Accelerator."""
        self.wait()
        asked = numbers.memory, start, seeds[0], len(seeds)
        return _NUMBER_BYTES * self._kernels.unlike_pattern(self._index, *asked).words

    def seconds(self, work: Call, times: int) -> float:
        """See Accelerator."""
        return self.in_a_row([work] * times)[0]

    def in_a_row(self, calls: Sequence[Call]) -> "tuple[float, float]":
        """See Accelerator."""
        before = self._runtime.event(self.stream)
        start = time.perf_counter()
        for call in calls:
            call()
        queued = time.perf_counter() - start
        return self._between(before, len(calls)), queued / len(calls)

    def held(self, lead: Call, calls: Sequence[Call], seconds: float) -> Optional[float]:
        """See Accelerator; it always takes `seconds`.

        A hold that waits for a word of the host costs every small call 0.1 to 0.3 us on two H200,
        and one that the host ends late several us; one that ends by its own clock costs nothing.
        """
        late = ctypes.c_uint.from_address(self._late.address)
        late.value = 0
        cycles = int(seconds * _CYCLES_PER_SECOND)
        ends = self._never.address, cycles, self._late.address
        self._kernels.hold(self._index, *ends, self.stream)
        lead()
        before = self._runtime.event(self.stream)
        for call in calls:
            call()
        was_late = late.value != 0
        taken = self._between(before, len(calls))
        return None if was_late else taken

    def _between(self, before: Any, calls: int) -> float:
        """Seconds of one call since an event, until all that is queued now is done."""
        runtime = self._runtime
        after = runtime.event(self.stream)
        runtime.await_event(after)
        seconds = runtime.seconds(before, after)
        for event in (before, after):
            runtime.drop_event(event)
        return seconds / calls


# The ranks of a run through torch.distributed: NCCL or RCCL, gloo in the self-test.
_FOREVER = datetime.timedelta(days=2)
"""torch's own deadline must never come first, because torch would write dumps and abort."""


class TorchGroup:
    """One rank's view of the group."""

    def __init__(
        self,
        here: TorchAccelerator,
        dist: Any,
        open_store: Callable[[], Any],
        rank: int,
        ranks: int,
        members: Sequence[int] = (),
        process_group: Any = None,
    ) -> None:
        """`dist`: torch.distributed. `open_store`: gives the store in which torch's ranks meet.

        `members` and `process_group`: of a part, its ranks among all, and torch's name of it.
        """
        self._here = here
        self._dist = dist
        self._open_store = open_store
        self._rank = rank
        self._ranks = ranks
        self._members = tuple(members) or tuple(range(ranks))
        self._among: dict[str, Any] = {"group": process_group} if members else {}

    def across(self, topics: NodesTopics, rank: int, ranks: int) -> "TorchGroup":
        """See RankGroup."""
        return TorchGroup(self._here, self._dist, lambda: topics.torch_store(ranks), rank, ranks)

    def part(self, name: str, members: Sequence[int]) -> "Optional[TorchGroup]":
        """See RankGroup; torch counts its groups itself."""
        made = self._dist.new_group(list(members))
        if self._rank not in members:
            return None
        rank, ranks = members.index(self._rank), len(members)
        return TorchGroup(
            self._here, self._dist, self._open_store, rank, ranks, members, made
        )  # fmt: skip

    def open(self, *, eager: bool) -> None:
        """See RankGroup; old torches make the communicator with the first collective."""
        if self._among:
            return  # torch made it together with all others
        here, dist = self._here, self._dist
        store = self._open_store()
        store.set_timeout(_FOREVER)
        more: dict[str, Any] = {}
        known = inspect.signature(dist.init_process_group).parameters
        if eager and here.backend == "nccl" and "device_id" in known:
            more["device_id"] = here.torch_device()
        dist.init_process_group(
            here.backend,
            store=dist.PrefixStore("group", store),
            rank=self._rank,
            world_size=self._ranks,
            timeout=_FOREVER,
            **more,
        )

    def all_reduce(self, data: Any) -> Call:
        """See RankGroup."""
        return lambda: self._dist.all_reduce(data, **self._among)

    def all_gather(self, given: Any, result: Any) -> Call:
        """See RankGroup."""
        gather = self._newest("all_gather_single", "all_gather_into_tensor")
        return lambda: gather(result, given, **self._among)

    def reduce_scatter(self, given: Any, result: Any) -> Call:
        """See RankGroup."""
        scatter = self._newest("reduce_scatter_single", "reduce_scatter_tensor")
        return lambda: scatter(result, given, **self._among)

    def all_to_all(self, given: Any, result: Any) -> Call:
        """See RankGroup."""
        return lambda: self._dist.all_to_all_single(result, given, **self._among)

    def broadcast(self, data: Any, root: int) -> Call:
        """See RankGroup."""
        return lambda: self._dist.broadcast(data, self._members[root], **self._among)

    def exchange(
        self, sends: "Sequence[tuple[Any, int]]", receives: "Sequence[tuple[Any, int]]"
    ) -> Call:
        """See RankGroup; a batch, as torch makes a communicator of two for a bare send."""
        dist = self._dist
        parts = [(dist.isend, *part) for part in sends] + [(dist.irecv, *part) for part in receives]
        operations = [
            dist.P2POp(way, data, self._members[peer], **self._among) for way, data, peer in parts
        ]

        def exchange() -> None:
            for work in dist.batch_isend_irecv(operations):
                work.wait()

        return exchange

    def _newest(self, *names: str) -> Any:
        """The first of these functions in this torch; older names warn at each call."""
        return next(getattr(self._dist, name) for name in names if hasattr(self._dist, name))


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

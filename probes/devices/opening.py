"""Chooses the devices of a request: the driver's GPUs, those of torch, or made-up ones."""

import contextlib
import ctypes
import gc
import importlib
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional

from ..engine.library import EngineError
from ..engine.memory import Memory
from ..engine.opening import open_runtime
from ..protocol.messages import DeviceRecord
from ..protocol.plaintext import one_line
from ..protocol.spec import ProbeStopped
from ..protocol.status import DeviceKind, Status
from .devices import Backend, Devices, Flow, FlowTimes, StoreCheck, Versions, hidden_by
from .gpus import Gpus

_OLDEST = (2, 1)
_OVERRULED = (
    "CUDA_LAUNCH_BLOCKING", "AMD_SERIALIZE_COPY", "AMD_SERIALIZE_KERNEL", "HIP_LAUNCH_BLOCKING",
    "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
)  # fmt: skip
"""Variables that prevent held streams or plain device memory."""
_left_out: "list[str]" = []


# Host memory in place of GPUs: the self-test.
#
# Steps and messages are the same without a GPU: each "device" is a pair of buffers in host memory.
# Every message has the device kind "cpu"; its figures are those of memcpy and say nothing about
# GPUs.
class Cpus:
    """Made-up devices in host memory."""

    kind = DeviceKind.CPU
    grantor = "nobody: host memory is one"
    copy_engine = "host memcpy"
    store_engine = "host store"
    kernel_engine = "host loop"
    no_kernels: Optional[str] = None

    def __init__(self, count: int, torch: Optional[str] = None) -> None:
        """`torch`: the version of the torch that computes on them, if one does."""
        self._count = count
        self._torch = torch
        self._held: list[Any] = []
        self._out: dict[int, Memory] = {}
        self._into: dict[int, Memory] = {}

    def versions(self) -> Versions:
        """Software versions."""
        return Versions(torch=self._torch)

    def devices(self) -> "tuple[DeviceRecord, ...]":
        """cpu:0, cpu:1, ..."""
        return tuple(
            DeviceRecord(key=f"cpu:{index}", index=index, name="host memory (self-test)")
            for index in range(self._count)
        )

    def open(self, indices: Sequence[int]) -> None:
        """Nothing to create."""

    def free_bytes(self, index: int) -> int:
        """Free memory of the host."""
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

    def _memory(self, content: bytes) -> Memory:
        self._held.append((ctypes.c_ubyte * len(content)).from_buffer_copy(content))
        return Memory(ctypes.addressof(self._held[-1]), len(content))

    def allocate(self, indices: Sequence[int], buffer_bytes: int) -> None:
        """Allocate a buffer of random data and an empty one for each device."""
        for index in indices:
            self._out[index] = self._memory(os.urandom(buffer_bytes))
            self._into[index] = self._memory(bytes(buffer_bytes))

    def release(self) -> None:
        """Forget the buffers."""
        for kept in (self._out, self._into):
            kept.clear()
        self._held.clear()

    def can_access(self, src: int, dst: int) -> bool:
        """Always granted: all devices share the host memory."""
        return True

    def why_not_mapped(self, src: int, dst: int) -> Optional[str]:
        """Nothing has to be mapped."""
        return None

    def store(self, src: int, dst: int, size_bytes: int) -> StoreCheck:
        """A store over the complement, then a comparison of every byte."""
        expected = os.urandom(size_bytes)
        target = bytearray(byte ^ 255 for byte in expected)
        target[:] = expected
        wrong = [place for place in range(size_bytes) if target[place] != expected[place]]
        return StoreCheck(size_bytes, len(wrong), wrong[0] if wrong else None)

    def flow_seconds(self, flows: Sequence[Flow], size_bytes: int, copies: int) -> FlowTimes:
        """Time copies with the host's clock, in a thread for each flow, started together."""
        ready = threading.Barrier(len(flows))
        started: dict[int, float] = {}
        done: dict[int, list[float]] = {place: [] for place in range(len(flows))}

        def work(place: int, flow: Flow) -> None:
            to, source = flow.ends(self._into, self._out, size_bytes)
            ready.wait()
            started[place] = time.perf_counter()
            for _ in range(copies):
                ctypes.memmove(to.address, source.address, size_bytes)
                done[place].append(time.perf_counter())

        threads = [threading.Thread(target=work, args=arguments) for arguments in enumerate(flows)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        first = min(started.values())
        return FlowTimes(
            tuple(tuple(end - first for end in done[place]) for place in range(len(flows)))
        )

    def kernel_seconds(self, flow: Flow, size_bytes: int, copies: int) -> Optional[float]:
        """Time a second memcpy in place of a kernel."""
        return self.flow_seconds([flow], size_bytes, copies).together

    def staged_seconds(self, src: int, dst: int, size_bytes: int) -> float:
        """Time a copy through a third buffer, in two pieces."""
        half = size_bytes // 2
        between = self._memory(bytes(half))
        start = time.perf_counter()
        for place in (0, half):
            ctypes.memmove(between.address, self._out[src].address + place, half)
            ctypes.memmove(self._into[dst].address + place, between.address, half)
        return time.perf_counter() - start

    def chase_seconds(self, src: int, dst: int, hops: int) -> Optional[float]:
        """Time a Python loop through a ring of list indices."""
        ring = [(place + 1) % 16384 for place in range(16384)]
        at, start = 0, time.perf_counter()
        for _ in range(hops):
            at = ring[at]
        return time.perf_counter() - start

    def clear(self, index: int) -> None:
        """Fill with zeros."""
        ctypes.memset(self._into[index].address, 0, self._into[index].size_bytes)

    def copied_right(self, src: int, dst: int, size_bytes: int) -> Optional[bool]:
        """Whether both buffers agree."""
        ends = self._into[dst].address, self._out[src].address
        came, sent = (ctypes.string_at(address, size_bytes) for address in ends)
        return came == sent


class TorchGpus:
    """The GPUs that a torch computes on, CUDA and HIP alike."""

    kind = DeviceKind.GPU

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


def drop_overruled_variables() -> "list[str]":
    """Remove variables that would falsify figures from this process; call it before anything else.

    Returns all names removed so far, since a worker runs several probes.
    """
    _left_out.extend(name for name in _OVERRULED if os.environ.pop(name, None) is not None)
    return list(dict.fromkeys(_left_out))


def wake_driver() -> None:
    """Let the driver start in a thread, which takes up to a second, and nothing of a GPU.

    Who opens it meanwhile waits for it, and says what fails.
    """
    drop_overruled_variables()

    def start() -> None:
        with contextlib.suppress(EngineError):
            open_runtime()

    threading.Thread(target=start, name="driver", daemon=True).start()


def open_backend(params: Mapping[str, Any]) -> Backend:
    """The devices that the driver shows to this process; ProbeStopped if there are none."""
    made_up = self_test_devices(params)
    return Cpus(made_up) if made_up is not None else open_driver()


def open_torch(params: Mapping[str, Any], imported: Callable[[], object] = lambda: None) -> Devices:
    """The devices of this worker's torch; ProbeStopped with the reason if there are none.

    `imported` is called after the import of torch, which only waits for file systems, and before
    the first question to the driver.
    """
    made_up = self_test_devices(params)
    torch = import_torch()
    imported()
    if made_up is not None:
        return Cpus(made_up, str(torch.__version__))
    if torch.cuda.is_available():
        return TorchGpus(torch, open_driver())
    raise ProbeStopped(Status.REFUSED, _why_no_gpu(torch))


def open_driver() -> Gpus:
    """The GPUs of the driver; ProbeStopped with its words if there are none."""
    try:
        return Gpus(open_runtime())
    except EngineError as error:
        reason = one_line(str(error), 200)
        raise ProbeStopped(Status.REFUSED, f"No GPU can be used{hidden_by()}: {reason}.") from error


def self_test_devices(params: Mapping[str, Any]) -> Optional[int]:
    """How many devices the self-test makes up; None if real GPUs are asked for.

    `selftest` or `device` "cpu" ask for it, whatever GPUs there are; `count` is their number.
    """
    if params.get("device") != "cpu" and params.get("selftest") is not True:
        return None
    count = params.get("count", 3)
    if type(count) is not int or not 1 <= count <= 16:
        raise ProbeStopped(Status.REFUSED, "The self-test takes a count of 1 to 16 devices.")
    return count


def import_torch(parts: Sequence[str] = ()) -> Any:
    """torch; ProbeStopped where it is missing, broken or too old.

    `parts`: its modules to import too; one that fails is left to the probe that needs it.
    """
    try:
        # An import makes a million objects that stay: looking for garbage takes a sixth of it.
        gc.disable()
        torch = importlib.import_module("torch")
        for part in parts:
            with contextlib.suppress(Exception):
                importlib.import_module(f"torch.{part}")
    except ModuleNotFoundError as error:
        if error.name == "torch":
            raise ProbeStopped(Status.NO_TORCH, "This Python has no torch.") from error
        raise ProbeStopped(
            Status.NO_TORCH, f"torch does not import: {one_line(str(error))}"
        ) from error
    except (ImportError, OSError) as error:
        raise ProbeStopped(
            Status.NO_TORCH, f"torch does not import: {one_line(str(error))}"
        ) from error
    finally:
        gc.enable()
    version = str(getattr(torch, "__version__", ""))
    numbers = tuple(int(part) for part in version.split("+")[0].split(".")[:2] if part.isdigit())
    if len(numbers) < 2:
        raise ProbeStopped(Status.NO_TORCH, "What this Python imports as torch is not PyTorch.")
    if numbers < _OLDEST:
        raise ProbeStopped(Status.REFUSED, f"torch {version} is too old: 2.1 is needed.")
    return torch


def _why_no_gpu(torch: Any) -> str:
    build = torch.version.cuda or getattr(torch.version, "hip", None)
    if build is None:
        return f"No GPU: torch {torch.__version__} is a build without CUDA and without HIP."
    return f"No GPU: torch {torch.__version__} sees none{hidden_by()}."

"""Finds the driver of this machine's GPUs and opens it."""

import ctypes
import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Optional, Union

from .cuda import Cuda
from .library import DriverLibrary, EngineError
from .memory import Memory
from .rocm import below, folders
from .runtime import Runtime

_CUDA = "libcuda.so.1"
_MAPS = Path("/proc/self/maps")
_CUDA_OF_WSL = Path("/usr/lib/wsl/lib/libcuda.so.1")
_DEVICES = Path("/dev")
_FILES_OF_NVIDIA = ("nvidia[0-9]*", "nvidiactl", "nvidia-uvm")
_FILES_OF_AMD = ("kfd", "dri/renderD*")
_MOST_NAMED = 3
_NO_MEMORY = 2
"""CUDA_ERROR_OUT_OF_MEMORY and hipErrorOutOfMemory, of the host before any GPU is open."""

# HIP's runtime interface, libamdhip64, in the same shape. Tried with a stand-in library only.
#
# It has no call that names an architecture without a structure that changes between releases, so
# that the kernel's own list of GPUs (/sys/class/kfd) tells it, matched by PCI address.
_DEFAULT = 4
"""hipMemcpyDefault: the runtime sees from the addresses where they are."""
_NUMA_USER = 0x20000000
"""hipHostMallocNumaUser; without it HIP takes the node next to the current GPU."""
_NODES = Path("/sys/class/kfd/kfd/topology/nodes")


def _numbers(path: Path) -> "dict[str, int]":
    """The names and numbers of a file of the kernel."""
    words = [line.split() for line in path.read_text().splitlines()]
    return {each[0]: int(each[1]) for each in words if len(each) == 2 and each[1].isdecimal()}


class Hip(Runtime):
    """The devices of one libamdhip64."""

    is_hip = True
    names = {  # noqa: RUF012
        "count": "hipGetDeviceCount",
        "device": "hipDeviceGet",
        "name": "hipDeviceGetName",
        "address": "hipDeviceGetPCIBusId",
        "total": "hipDeviceTotalMem",
        "synchronize": "hipDeviceSynchronize",
        "peer": "hipDeviceCanAccessPeer",
        "memory_info": "hipMemGetInfo",
        "allocate": "hipMalloc",
        "free": "hipFree",
        "allocate_host": "hipHostMalloc",
        "free_host": "hipHostFree",
        "pin": "hipHostRegister",
        "unpin": "hipHostUnregister",
        "stream": "hipStreamCreateWithFlags",
        "drop_stream": "hipStreamDestroy",
        "event": "hipEventCreateWithFlags",
        "record": "hipEventRecord",
        "drop_event": "hipEventDestroy",
        "wait": "hipStreamWaitEvent",
        "await": "hipEventSynchronize",
        "elapsed": "hipEventElapsedTime",
        "load": "hipModuleLoadData",
        "unload": "hipModuleUnload",
        "function": "hipModuleGetFunction",
        "copy": "hipMemcpyAsync",
        "clear": "hipMemset",
        "launch": "hipModuleLaunchKernel",
    }
    _host_flags = Runtime._host_flags | _NUMA_USER

    def __init__(self, handle: Any, nodes: Path = _NODES) -> None:
        """Initialise the runtime; EngineError if it refuses. `nodes`: the kernel's list of GPUs."""
        names = ("hipGetErrorName", "hipGetErrorString")
        super().__init__(DriverLibrary(handle, names, errors_by_value=True))
        self._library.call("hipInit", ctypes.c_uint(0))
        self._nodes = nodes

    def uuid(self, index: int) -> Optional[str]:
        """Partitions of one GPU share it, so that none is told."""
        return None

    def architecture(self, index: int) -> str:
        """See Runtime; EngineError where the kernel does not list the GPU."""
        number = self._properties(index)["gfx_target_version"]
        major, minor, step = number // 10000, number // 100 % 100, number % 100
        return f"gfx{major}{minor:x}{step:x}"

    def multiprocessors(self, index: int) -> int:
        """See Runtime; EngineError where the kernel does not list the GPU."""
        found = self._properties(index)
        return found["simd_count"] // max(1, found["simd_per_cu"])

    def l2_bytes(self, index: int) -> Optional[int]:
        """See Runtime; on MI300X each of eight dies has an L2 of its own."""
        caches = (_numbers(path) for path in self._folder(index).glob("caches/*/properties"))
        sizes = [found.get("size", 0) for found in caches if found.get("level") == 2]
        return 1024 * max(sizes, default=0) or None  # the kernel counts kB

    def _properties(self, index: int) -> "dict[str, int]":
        """What the kernel says of a GPU, by name."""
        return _numbers(self._folder(index) / "properties")

    def _folder(self, index: int) -> Path:
        """The kernel's folder of a GPU."""
        address = self.pci_address(index) or ""
        for path in sorted(self._nodes.glob("*/properties")):
            found = _numbers(path)
            place = found.get("location_id", 0)
            here = (
                f"{found.get('domain', 0):04x}:{place >> 8:02x}:{place >> 3 & 31:02x}.{place & 7}"
            )
            if found.get("gfx_target_version") and address.startswith(here[:-2]):
                return path.parent
        raise EngineError(f"/sys/class/kfd does not list {address or f'GPU {index}'}")

    def _open(self, index: int) -> None:
        self._use(index)
        self._library.call("hipFree", None)  # the usual way to create a context

    def _use(self, index: int) -> None:
        self._library.call("hipSetDevice", index)

    def _reach(self, dst: int) -> None:
        self._library.call("hipDeviceEnablePeerAccess", dst, ctypes.c_uint(0))

    def copy(self, to: int, source: int, size_bytes: int, stream: Any) -> None:
        """See Runtime."""
        ends = ctypes.c_void_p(to), ctypes.c_void_p(source)
        self._here("copy", *ends, ctypes.c_size_t(size_bytes), _DEFAULT, stream)

    def _clear(self, memory: Memory) -> None:
        size = ctypes.c_size_t(memory.size_bytes)
        self._here("clear", ctypes.c_void_p(memory.address), 0, size)


def open_runtime(devices: Path = _DEVICES) -> Runtime:
    """The driver that sees GPUs, CUDA's before HIP's; EngineError with its words otherwise.

    `devices`: the folder of device files.
    """
    refusals: list[str] = []
    for make, handle in _drivers(refusals):
        opened = _opened(make, handle)
        if isinstance(opened, Runtime):
            return opened
        said = f"{opened}{_about_files(devices, is_hip=make is Hip)}{_about_limit(opened)}"
        # A library of CUDA on a node of AMD, as of an image for both, is not what is amiss.
        of_amd_alone = (devices / "kfd").exists() and not (devices / "nvidiactl").exists()
        refusals.insert(0 if make is Hip and of_amd_alone else len(refusals), said)
    raise EngineError(refusals[0] if refusals else f"there is no {_CUDA} and no libamdhip64.so")


def _about_files(devices: Path, *, is_hip: bool) -> str:
    """What is wrong with the device files of a driver that refuses; "" if nothing is."""
    shut = shut_files(devices, _FILES_OF_AMD if is_hip else _FILES_OF_NVIDIA)
    if shut:
        return f"; this user may not open {', '.join(shut)}"
    memory = devices / "nvidia-uvm"
    if is_hip or memory.exists() or not (devices / "nvidiactl").exists():
        return ""
    return f"; there is no {memory}, which `nvidia-modprobe -c 0 -u` makes"


def _about_limit(refusal: EngineError) -> str:
    """The limit of addresses, where the driver found no memory; "" if there is none."""
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    if refusal.code != _NO_MEMORY or most == resource.RLIM_INFINITY:
        return ""
    return f"; a driver maps far more than the {most >> 20} MiB that ulimit -v allows here"


def _opened(make: "Callable[[Any], Runtime]", handle: Any) -> "Union[Runtime, EngineError]":
    try:
        runtime = make(handle)
        if runtime.count() > 0:
            return runtime
    except EngineError as error:
        return error
    return EngineError("the driver shows this process no GPU")


def shut_files(devices: Path, names: "tuple[str, ...]") -> "list[str]":
    """Device files that exist and that this process may not open, at most three."""
    paths = sorted(str(path) for name in names for path in devices.glob(name))
    return [path for path in paths if not may_open(path)][:_MOST_NAMED]


def may_open(path: str) -> bool:
    """Whether this process may open a device file; True where something else is wrong with it.

    Permissions do not tell it: a cgroup hides a GPU from a job behind a file that anybody may read.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))
    except PermissionError:
        return False
    except OSError:
        pass  # gone, or broken in another way, which the driver told
    return True


def _drivers(broken: "list[str]") -> "Iterator[tuple[Any, Any]]":
    """What makes a runtime, and the library for it; `broken` takes what cannot be loaded."""
    for make, places in ((Cuda, (_CUDA, _CUDA_OF_WSL)), (Hip, hip_places())):
        handle = next(filter(None, (_loaded(place, broken) for place in places)), None)
        if handle is not None:
            yield make, handle


def hip_places() -> "Iterator[Union[str, Path]]":
    """Where HIP's library may lie, best first: names are the loader's to find."""
    # torch may have loaded one already: a second copy would know other devices.
    yield from _mapped("libamdhip64.so")
    yield from ("libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5")
    for folder in folders():
        yield from below(folder, "libamdhip64.so*")


def _mapped(name: str) -> "list[str]":
    """Paths of a library that this process has loaded; none where there is no /proc."""
    try:
        lines = _MAPS.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return []
    return ["/" + line.partition("/")[2] for line in lines if name in line][:1]


def _loaded(place: "Union[str, Path]", broken: "list[str]") -> Optional[Any]:
    try:
        return ctypes.CDLL(str(place))
    except OSError as error:
        # A file that cannot be loaded, as an empty one of an image, is something else than none.
        if not str(error).startswith(f"{place}: cannot open shared object file: No such"):
            broken.append(f"{place} cannot be loaded: {error}")
    return None


def kernel_driver_version(*, is_hip: bool) -> Optional[str]:
    """Version of the loaded kernel driver, from /proc or /sys."""
    try:
        if is_hip:
            return Path("/sys/module/amdgpu/version").read_text().strip() or None
        first = Path("/proc/driver/nvidia/version").read_text().splitlines()[0]
    except (OSError, IndexError):
        return None
    numbers = [word for word in first.split() if word.replace(".", "").isdigit() and "." in word]
    return numbers[0] if numbers else None

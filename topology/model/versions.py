"""Version numbers that compare, and the collective library of a version."""

import os
import re
from functools import lru_cache

import msgspec

from .severity import Word

_NUMBERS = re.compile(r"\d{1,9}(?:\.\d{1,9})*")


def numbers(version: str) -> tuple[int, ...]:
    """The numbers of a version: "2.28.9", "nccl-2.28.9", "2.30.7+cuda13.0"; () when it has none."""
    return _read(version)


@lru_cache(4096)  # the tables of versions ask for theirs again and again
def _read(version: str) -> tuple[int, ...]:
    found = _NUMBERS.search(version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


class Product(Word):
    """What has versions that bear on communication, as people call it."""

    NCCL = "NCCL"
    RCCL = "RCCL"
    NVIDIA = "NVIDIA driver"
    CUDA_DRIVER = "CUDA of the driver"
    CUDA = "CUDA toolkit"
    FABRIC_MANAGER = "Fabric Manager"
    CONTAINER_TOOLKIT = "NVIDIA Container Toolkit"
    NVSHMEM = "NVSHMEM"
    AMDGPU = "amdgpu driver"
    ROCM = "ROCm"
    AWS_OFI_NCCL = "aws-ofi-nccl"
    GIB = "NCCL/gIB"
    LIBFABRIC = "libfabric"
    EFA = "EFA driver"
    UCX = "UCX"
    NIXL = "NIXL"
    PYTORCH = "PyTorch"
    VLLM = "vLLM"
    SGLANG = "SGLang"
    FIRMWARE = "ConnectX firmware"
    LINUX = "Linux"


class LibraryName(Word):
    """A collective library."""

    NCCL = "nccl"
    RCCL = "rccl"


class Library(msgspec.Struct, frozen=True, kw_only=True):
    """The collective library whose behaviour is predicted."""

    name: LibraryName
    version: str

    @property
    def is_rccl(self) -> bool:
        """Whether it is AMD's library."""
        return self.name == LibraryName.RCCL


class LoadedLibrary(msgspec.Struct, frozen=True, kw_only=True, rename={"path": "library_path"}):
    """The collective library that a process has loaded."""

    path: str
    """As the process sees it; in a container below its own root."""
    version: str | None = None
    """From the file's own text; None where it cannot be read."""
    replaced: bool = False
    """The file was replaced or removed since the process loaded it."""

    @property
    def name(self) -> LibraryName:
        """Which library it is, by the name of its file."""
        ours = os.path.basename(self.path).startswith("librccl")
        return LibraryName.RCCL if ours else LibraryName.NCCL


class RunningLibrary(LoadedLibrary, frozen=True, kw_only=True):
    """A library that processes on the GPUs of a node have loaded."""

    job_names: tuple[str, ...] = ()
    """The jobs whose ranks have loaded it: "torchrun run-7"."""
    programs: tuple[str, ...] = ()
    """Programs that have loaded it and belong to no job that is named."""

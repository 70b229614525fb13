"""Version numbers that compare, and the collective library of a version."""

import re

import msgspec

from .severity import Word

_NUMBERS = re.compile(r"\d{1,9}(?:\.\d{1,9})*")


def numbers(version: str) -> tuple[int, ...]:
    """The numbers of a version: "2.28.9", "nccl-2.28.9", "2.30.7+cuda13.0"; () when it has none."""
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

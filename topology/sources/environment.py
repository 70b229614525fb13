"""The variables of this process that change what CUDA, NCCL, RCCL and their plug-ins do."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from ..snapshot import EnvironmentVariable
from .source import Part, Raw, Source

PREFIXES = ("NCCL_", "RCCL_", "TORCH_NCCL_", "HSA_", "FI_EFA_", "PYTORCH_TUNABLEOP_")
NAMES = frozenset(
    {
        "CUDA_DEVICE_MAX_CONNECTIONS",
        "CUDA_DEVICE_ORDER",
        "CUDA_LAUNCH_BLOCKING",
        "CUDA_MODULE_LOADING",
        "CUDA_MPS_PIPE_DIRECTORY",
        "CUDA_VISIBLE_DEVICES",
        "FI_PROVIDER",
        "GPU_MAX_HW_QUEUES",
        "HIP_VISIBLE_DEVICES",
        "NVIDIA_VISIBLE_DEVICES",
        "NVSHMEM_DISABLE_NVLS",
        "ROCR_VISIBLE_DEVICES",
        "TORCH_SYMM_MEM_DISABLE_MULTICAST",
        "PYTORCH_ALLOC_CONF",
        "PYTORCH_CUDA_ALLOC_CONF",
        "PYTORCH_HIP_ALLOC_CONF",
    }
)
LIMIT_CHARACTERS = 512


def listed(name: str) -> bool:
    """Whether a variable of that name may be shown and stored; no other ever is."""
    return name in NAMES or name.startswith(PREFIXES)


def read(environment: Mapping[str, str] | None = None) -> Raw:
    """The listed variables of this process (or of the mapping given), by name."""
    values = os.environ if environment is None else environment
    return {name: value for name, value in sorted(values.items()) if listed(name)}


def parse(raw: Raw) -> Part:
    """Each variable with the origin "environment"; values cut at 512 characters."""
    if not isinstance(raw, dict):
        return Part()
    return Part(
        environment=tuple(
            EnvironmentVariable(
                name=name,
                # Bytes that are no UTF-8 come as lone surrogates, which JSON cannot hold.
                value=str(value)[:LIMIT_CHARACTERS].encode("utf-8", "replace").decode(),
                origin="environment",
            )
            for name, value in raw.items()
            if isinstance(name, str) and listed(name)
        )
    )


def _reader() -> Callable[[], Raw]:
    return read


SOURCE = Source(
    id="environment", interval_seconds=60.0, deadline_seconds=1.0, reader=_reader, parse=parse
)

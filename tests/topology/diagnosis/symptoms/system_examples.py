"""CUDA's words and numbers as programs print them, for rows of cuda.toml."""

from __future__ import annotations

CUDA_WORDS = {
    "invalid argument": ("cuda-invalid-argument", "cuda-other"),
    "initialization error": ("cuda-not-initialized",),
    "CUDA driver is a stub library": ("cuda-stub",),
    "CUDA driver version is insufficient for CUDA runtime version": ("driver-too-old",),
    "CUDA-capable device(s) is/are busy or unavailable": ("gpu-unavailable",),
    "invalid device function": ("no-kernel-image",),
    "no CUDA-capable device is detected": ("gpu-unavailable",),
    "mapping of buffer object failed": ("cuda-205",),
    "uncorrectable ECC error encountered": ("cuda-ecc",),
    "peer access is not supported between these two devices": (
        "shm-needs-peer-access", "peer-access-missing",
    ),
    "the provided PTX was compiled with an unsupported toolchain.": ("driver-too-old",),
    "OS call failed or operation not supported on this OS": ("cuda-304",),
    "invalid resource handle": ("cuda-misused",),
    "named symbol not found": ("cuda-500",),
    "the launch timed out and was terminated": ("cuda-crashed",),
    "too many blocks in cooperative launch": ("cuda-other",),
    "operation not permitted": ("cuda-800", "cuda-other"),
    "operation not supported": ("cuda-801",),
    "system not yet initialized": ("cuda-802",),
    "MPS server is not ready to accept new MPS client requests": ("mps",),
    "operation not permitted when stream is capturing": ("graph-capture",),
    "unknown error": ("cuda-unknown",),
}  # fmt: skip
"""CUDA's words for an error -> the rows that may answer, whoever reports it."""
CUDA_FORMS = (
    "n1:1:2 [0] init.cc:9 NCCL WARN Cuda failure 7 '{}'",
    "RuntimeError: CUDA error: {}",
    "n1: Test CUDA failure common.cu:1304 '{}'",
    "CUDA initialization: Unexpected error from cudaGetDeviceCount(). Error 7: {} (Triggered",
    "CUDA error 7 at file.cu:12: {}",
    "RuntimeError: CUDA driver error: {}",
    "cuda runtime error (7) : {} at /pytorch/x.cu:1",
)
"""How programs report it."""

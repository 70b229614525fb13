"""Lines of what stands around a job, one or a few for each row of system.toml and cuda.toml."""

from __future__ import annotations

WATCHDOG = (
    "[rank9]:[E207 03:21:21.004 ProcessGroupNCCL.cpp:616] [Rank 9] Watchdog caught collective "
    "operation timeout: WorkNCCL(SeqNum=3, OpType=ALLREDUCE, NumelIn=1, NumelOut=1)"
)

SYSTEM: dict[str, list[str]] = {
    "container-lost-gpus": ["Failed to initialize NVML: Unknown Error"],
    "driver-not-running": [
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure"
    ],
    "driver-not-built": [
        "ERROR: modpost: GPL-incompatible module nvidia.ko uses GPL-only symbol 'rcu_read_unlock'"
    ],
    "gpu-interrupts": [
        "Unable to determine the device handle for GPU 8786:00:00.0: The NVIDIA kernel module "
        "detected an issue with GPU interrupts.Consult the README"
    ],
    "inforom-corrupt": ["WARNING: infoROM is corrupted at gpu 0000:00:05.0"],
    "gpu-not-initialised": ["NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x22:0x56:742)"],
    "container-runtime-missing": [
        'docker: Error response from daemon: could not select device driver "" with capabilities: '
        "[[gpu]]."
    ],
    "no-gpu-listed": ["No devices were found"],
    "torch-without-gpu": ["AssertionError: Torch not compiled with CUDA enabled"],
    "pcie-uncorrected": [
        "pcieport 0000:00:03.0: AER: Multiple Uncorrected (Fatal) error received: 0000:00:03.0"
    ],
    "pcie-corrected": [
        "pcieport 0000:00:03.0: PCIe Bus Error: severity=Corrected, type=Data Link Layer"
    ],
    "hip-hang": ["HW Exception by GPU node-1 (Agent handle: 0x55) reason :GPU Hang"],
    "amdgpu-not-initialised": ["amdgpu 0000:1b:00.0: amdgpu: Fatal error during GPU init"],
    "hip-no-device": ["error: 'hipErrorInvalidDevice'(1010) at square.cpp:60"],
    "peermem-absent": ["ibgda.cpp:3626: neither nv_peer_mem, or nvidia_peermem detected. Skipping"],
    "nvshmem-mapping": ["ibgda.cpp:1500: cudaHostRegister with IoMemory failed with error=800"],
    "nvshmem-failed": ["src/host/init/init.cu:995: non-zero status: 7 nvshmem detect topo failed"],
    "ray-no-gpu": ["[autoscaler] Error: No available node types can fulfill resource request {"],
    "tcpxo-gpu-count": [
        "fastrak_gpumem_manager.cc:200] Number of GPUs detected in the PCI tree 7 is not equal to "
        "the actual number of GPUs reported by CUDA 8"
    ],
    "tcpxo-daemon": ["n1:1:2 [0] NCCL WARN NET/FasTrak connect() error: 111: Connection refused"],
    "stray-connection": [
        "n1:39:298 [0] bootstrap.cc:279 NCCL WARN [Rem Allocator] Allocation failed (segment 0)"
    ],
    "kernel-launch-refused": [
        "n1:1:2 [1] enqueue.cc:1500 NCCL WARN Cuda failure 1 'invalid argument'"
    ],
    "llama-p2p": ["export GGML_CUDA_P2P=1"],
    "long-work": ["Loading safetensors checkpoint shards:  61% Completed | 100/163", WATCHDOG],
    "system-error-unsaid": ["n1: Test NCCL failure common.cu:777 'unhandled system error'"],
    "cuda-stub": ["RuntimeError: CUDA error: CUDA driver is a stub library"],
    "mps": ["Error 805: MPS client failed to connect to the MPS control daemon or the MPS server"],
    "graph-capture": ["CUDA error: operation not permitted when stream is capturing"],
    "cuda-801": ["n1:1:2 [0] NCCL WARN Cuda failure 801 'operation not supported'"],
    "cuda-304": [
        "UserWarning: CUDA initialization: Unexpected error from cudaGetDeviceCount(). Error 304: "
        "OS call failed or operation not supported on this OS"
    ],
    "cuda-misused": ["RuntimeError: CUDA error: invalid resource handle"],
    "cuda-other": ["RuntimeError: CUDA error: too many resources requested for launch"],
}

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

"""A demo's answer for the source `processes`: one training job on the busy GPUs."""

from __future__ import annotations

from typing import Any

from .nvml import cpu_numbers
from .pci_tree import Function
from .readings import FIRST_PID, busy
from .shape import DemoShape
from .work import LOADER, work_of

STARTED_AT = 1_750_000_000.0
"""Any time will do: a feed moves it to a while before its own start."""
LAUNCHER = FIRST_PID - 1
NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")
SHM_DEVICE = 26


def answer(shape: DemoShape, gpus: tuple[Function, ...]) -> dict[str, Any]:
    """What the operating system would say about the processes on busy GPUs."""
    working = [gpu for gpu in gpus if busy(shape, gpu)]
    return {
        "demo": True,
        "processes": {
            str(FIRST_PID + gpu.number): _process(shape, gpu, rank, len(working))
            for rank, gpu in enumerate(working)
        },
    }


def _process(shape: DemoShape, gpu: Function, rank: int, world: int) -> dict[str, Any]:
    node = shape.node
    sleeps = bool(work_of(shape, gpu.number).value.sleeps)
    shm_bytes = node.numa_memory_gib * len(node.numa_cpus) * 2**30 // 2
    return {
        "user": "demo",
        "command": "python3",
        "affinity": cpu_numbers(node.numa_cpus[gpu.numa]),
        "started_at": STARTED_AT,
        "memory_bytes": 24 * 2**30,
        "opens_gpu": True,
        "status": {
            "State": "S (sleeping)" if sleeps else "R (running)",
            "PPid": str(LAUNCHER),
            "Mems_allowed_list": f"0-{len(node.numa_cpus) - 1}" if len(node.numa_cpus) > 1 else "0",
        },
        **({"wchan": LOADER} if sleeps else {}),
        "parent_command": "torchrun",
        "memlock": "Max locked memory  unlimited  unlimited  bytes",
        "cgroup": "0::/user.slice/user-1000.slice/session-1.scope",
        "levels": [{"memory": "max", "cpu": "max 100000"}],
        "namespaces": {
            kind: f"{kind}:[{4026531835 + number}]" for number, kind in enumerate(NAMESPACES)
        },
        "variables": {
            "LOCAL_RANK": str(rank),
            "MASTER_ADDR": "localhost",
            "MASTER_PORT": "29500",
            "NCCL_DEBUG": "WARN",
            "RANK": str(rank),
            "TORCHELASTIC_RUN_ID": "demo",
            "WORLD_SIZE": str(world),
        },
        "hostname": "demo",
        "shm": {"device": SHM_DEVICE, "total": shm_bytes},
    }

"""GPUs that are already in use, by a known process or by an unknown one."""

from ....hardware.vendors import AMD, NVIDIA
from ....model.finding import Finding
from ....model.machine import Gpu
from ....model.page import Fix
from ....model.readings import GpuProcess, GpuReading, ProcessReading
from ....model.severity import BROKEN, NOTICE, SLOW
from ....model.units import percent, ranged, size
from ....sources.files.failures import ERROR
from ... import vendors
from ...case import Case
from ...rule import Found, Proof, Rule, faulty, needed

_COMPUTE = ("compute", "mps")
MOST_NAMED = 16
"""Processes of one GPU that are named; more would bury the rest."""
LISTING = "NVML nvmlDeviceGetComputeRunningProcesses"
_NAME_LIMIT = 40


def read(case: Case) -> list[tuple[Gpu, GpuReading]]:
    """The examined GPUs that are there, each with its reading."""
    return [
        (gpu, reading)
        for gpu in case.gpus
        if (reading := case.reading(gpu)) is not None and not reading.lost
    ]


def computing(reading: GpuReading) -> list[GpuProcess]:
    """Processes that compute, with or without MPS; those that draw do not count."""
    return [process for process in reading.processes or () if process.kind in _COMPUTE]


def processes(case: Case) -> dict[int, ProcessReading]:
    """What the operating system says of the processes, by PID."""
    return {process.pid: process for process in case.readings.processes}


def called(process: GpuProcess, known: dict[int, ProcessReading]) -> str:
    """Describe a process: "pid 41000, python3 of alice, slurm 12, 67.9 GiB"."""
    about = known.get(process.pid)
    words = [f"pid {process.pid}"]
    if about is not None and about.command:
        owner = f" of {about.user[:_NAME_LIMIT]}" if about.user else ""
        words.append(f"{about.command[:_NAME_LIMIT]}{owner}")
    if about is not None and about.job:
        words.append(about.job[:_NAME_LIMIT])
    if process.memory_bytes:
        words.append(size(process.memory_bytes))
    return ", ".join(words)


def _busy(case: Case) -> Found:
    # The load of a GPU that the driver fails to read in part proves neither work nor rest; a
    # process on it does.
    failing = {
        device
        for problem in case.snapshot.problems
        if problem.kind == ERROR
        for device in problem.devices
    }
    asked = needed(
        [
            (gpu, reading)
            for gpu, reading in read(case)
            if (gpu.address not in failing or computing(reading))
            and (reading.processes is not None or reading.utilization_percent is not None)
        ]
    )
    known = processes(case)
    limit = case.threshold(BUSY, "utilization_percent")
    evidence: list[Proof] = []
    addresses: list[str] = []
    for gpu, reading in asked:
        working = computing(reading)
        load = reading.utilization_percent or 0
        if not working and load <= limit:
            continue
        addresses.append(gpu.address)
        said = [called(process, known) for process in working[:MOST_NAMED]]
        said += [f"and {len(working) - MOST_NAMED} more"] if len(working) > MOST_NAMED else []
        evidence.append(
            (
                f"on {case.name(gpu)}",
                "; ".join(said) or f"{percent(load)} utilization, no process is named",
                vendors.source([gpu], LISTING if said else "NVML nvmlDeviceGetUtilizationRates"),
            )
        )
    fails = case.threshold(BUSY, "must_be_idle") > 0
    return BUSY.finding(
        SLOW if fails else NOTICE,
        f"{ranged(map(case.name, addresses))} busy",
        devices=addresses,
        evidence=faulty(evidence),
        impact=f"{_free(len(asked) - len(addresses), len(asked))} A job that starts on a busy "
        "one shares its memory and time, and figures measured there are low.",
        fix=[
            Fix(
                text="None where these jobs should run. Else list them, and end a leftover with "
                "`kill PID`.",
                command=vendors.command(
                    case.gpus,
                    nvidia="nvidia-smi --query-compute-apps=pid,gpu_bus_id,name --format=csv",
                    amd="amd-smi process",
                ),
            )
        ],
    )


def _free(free: int, asked: int) -> str:
    if not free:
        return "The only GPU is in use." if asked == 1 else f"None of {asked} GPUs is free."
    return f"{free} of {asked} GPUs {'is' if free == 1 else 'are'} free."


def _unlisted(case: Case) -> Found:
    # In a container the driver hides the processes of others, so an empty list proves nothing; nor
    # does it under Windows, whose own processes hold the memory too and are never listed.
    if case.in_container is not False or case.under_windows:
        return None
    asked = [
        (gpu, reading)
        for gpu, reading in read(case)
        if reading.processes is not None
        and reading.memory_used_bytes is not None
        and gpu.memory_bytes
        and not gpu.mig_enabled
        and not _coherent(case, gpu)
        and not (gpu.virtualization or "").startswith("host")  # its guests hold the memory
    ]
    held = [
        (gpu, reading)
        for gpu, reading in needed(asked)
        if not reading.processes and _used(case, gpu, reading) and not _works(case, reading)
    ]
    kinds = [[(g, r) for g, r in held if (g.vendor == AMD.id) == amd] for amd in (False, True)]
    return [_unlisted_finding(case, those) for those in kinds if those]


def _unlisted_finding(case: Case, held: list[tuple[Gpu, GpuReading]]) -> Finding:
    gpus = [gpu for gpu, _ in held]
    least = min(
        (reading.memory_free_bytes or 0) / (gpu.memory_bytes or 1)
        if reading.memory_free_bytes is not None
        else 1 - (reading.memory_used_bytes or 0) / (gpu.memory_bytes or 1)
        for gpu, reading in held
    )
    # amdsmi looks through /proc/*/fdinfo, which others than root may read of their own alone.
    amd = vendors.amd(gpus) and case.host.asked_as_root is not True
    full = least < case.threshold(UNLISTED, "full_share")
    return UNLISTED.finding(
        NOTICE if amd else BROKEN if full else SLOW,
        f"memory that no process owns on {case.names(gpus)}"
        if not amd
        else f"memory without a process that this user may see on {case.names(gpus)}",
        devices=gpus,
        evidence=[
            (
                f"memory in use on {case.name(gpu)}",
                f"{size(reading.memory_used_bytes)} of {size(gpu.memory_bytes)}, with no "
                "process on the GPU",
                vendors.source([gpu], f"NVML nvmlDeviceGetMemoryInfo, {LISTING}"),
            )
            for gpu, reading in held
        ],
        impact=f"A job finds {100 * least:.0f} % of the memory free and may end out of memory."
        + (" Another user's process may hold it: amdsmi names those to root alone." if amd else ""),
        fix=[
            Fix(
                text="Find what still holds the device open; a zombie's parent has to end.",
                command=vendors.command(
                    gpus, nvidia="fuser -v /dev/nvidia*", amd="fuser -v /dev/kfd"
                ),
                needs_root=True,
            ),
            vendors.reset(
                gpus, "If nothing does, reset the GPU; that needs the end of every job on it."
            ),
        ],
    )


def _coherent(case: Case, gpu: Gpu) -> bool:
    """Whether the kernel uses the GPU's memory as its own too: its page cache may lie there.

    This is so on Grace, where the memory is a NUMA node of the host (NVML's GPU NUMA id), and on
    Power9, where NVLink joins the V100 to its CPU.
    """
    sku = case.sku(gpu)
    if any(node.gpu_memory for node in case.host.numa):
        return True
    return gpu.gpu_numa_id is not None or bool(sku is not None and sku.c2c_gbs)


def _used(case: Case, gpu: Gpu, reading: GpuReading) -> bool:
    """Whether more is in use than the driver keeps for itself, about half a percent."""
    least = max(
        case.threshold(UNLISTED, "minimum_bytes"),
        case.threshold(UNLISTED, "minimum_share") * (gpu.memory_bytes or 0),
    )
    return (reading.memory_used_bytes or 0) > least


def _works(case: Case, reading: GpuReading) -> bool:
    """Whether an unlisted process computes, which is another finding."""
    return (reading.utilization_percent or 0) > case.threshold(BUSY, "utilization_percent")


BUSY = Rule(
    id="gpu-busy",
    title="GPUs that are in use",
    evidence="the processes that the driver names on each GPU, and its utilisation",
    disproof="no compute process in {asked} on these GPUs",
    asked=((NVIDIA.id, "`nvidia-smi`"), (AMD.id, "`amd-smi process`")),
    sources=("NVIDIA/DCGM#272", "oci-hpc healthchecks", "Slurm documentation: prolog"),
    check=_busy,
    thresholds=(("utilization_percent", 5.0), ("must_be_idle", 0.0)),
)
UNLISTED = Rule(
    id="gpu-memory-unlisted",
    title="memory of a GPU in use without a process",
    evidence="memory in use and the processes of each GPU, outside a container",
    disproof="a process on the GPU in {asked}, or free memory in a second reading",
    asked=((NVIDIA.id, "`nvidia-smi`"), (AMD.id, "`amd-smi process`")),
    sources=(
        "NVIDIA NVML API: nvmlDeviceGetMemoryInfo",
        "nvidia-smi manual: Processes",
        "ROCm/amdsmi src/amd_smi/fdinfo.cc",
    ),
    check=_unlisted,
    thresholds=(("minimum_bytes", 2.0**31), ("minimum_share", 0.02), ("full_share", 0.2)),
)
RULES = (UNLISTED, BUSY)

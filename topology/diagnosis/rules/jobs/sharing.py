"""GPUs that several jobs use at once: in turns, or through MPS."""

from ....hardware.vendors import NVIDIA
from ....model.readings import GpuProcess, GpuUse, ProcessReading
from ....model.severity import NOTICE, SLOW
from ... import vendors
from ...case import Case
from ...rule import Found, Proof, Rule, faulty, needed
from .gpu_use import LISTING, MOST_NAMED, called, computing, processes, read


def _shared(case: Case) -> Found:
    asked = needed([row for row in read(case) if row[1].processes is not None])
    known = processes(case)
    evidence: list[Proof] = []
    addresses: list[str] = []
    for gpu, reading in asked:
        working = computing(reading)
        if len(_owners(working, known)) < 2:
            continue
        addresses.append(gpu.address)
        evidence.append(
            (
                f"on {case.name(gpu)}, through MPS"
                if all(process.kind == GpuUse.MPS for process in working)
                else f"on {case.name(gpu)}, in turns",
                "; ".join(called(process, known) for process in working[:MOST_NAMED]),
                vendors.source([gpu], LISTING) + ", /proc",
            )
        )
    return SHARED.finding(
        SLOW,
        f"jobs of different owners share {case.names(addresses)}",
        devices=addresses,
        evidence=faulty(evidence),
        impact="They split its time and memory: each runs at half speed or less, and a "
        "collective waits for the slowest rank.",
        fix=[
            "Give each job its own GPUs: exclusive allocation in the scheduler, or MIG "
            "where parts are enough."
        ],
    )


def _owners(working: list[GpuProcess], known: dict[int, ProcessReading]) -> set[tuple[str, str]]:
    """Jobs, or users where no job is known; processes of which nothing is known do not count."""
    told = [known[process.pid] for process in working if process.pid in known]
    jobs = {("job", about.job) for about in told if about.job}
    users = {("user", about.user) for about in told if about.user}
    # A process without a job may be a helper of the other job: then only its user counts.
    jobless = any(about.user and not about.job for about in told)
    return users if len(jobs) < 2 and jobless else jobs


def _mps(case: Case) -> Found:
    clients = [
        gpu
        for gpu, reading in read(case)
        if any(process.kind == GpuUse.MPS for process in reading.processes or ())
    ]
    runs = case.host.mps_daemon
    if runs is None and not clients:
        return None
    if not runs and not clients:
        return []
    evidence = []
    if runs:
        evidence.append(("daemon of CUDA MPS", "running", "/proc/*/comm"))
    if clients:
        evidence.append(
            (
                "GPUs with clients of MPS",
                case.names(clients),
                "NVML nvmlDeviceGetMPSComputeRunningProcesses",
            )
        )
    return MPS.finding(
        NOTICE,
        "CUDA processes here go through MPS",
        devices=clients,
        evidence=evidence,
        impact="Several ranks may share a GPU at once, and an error of one ends the others. "
        "Ranks that are to have whole GPUs gain nothing from it.",
        fix=[
            (
                "Stop it where jobs have whole GPUs; that ends the programs that it serves. "
                "$ echo quit | nvidia-cuda-mps-control"
            ),
        ],
    )


SHARED = Rule(
    id="gpu-shared",
    title="GPUs on which several jobs compute",
    evidence="the processes of each GPU with their job or user",
    disproof="processes that are ranks or helpers of one job",
    sources=("CUDA MPS documentation", "NVIDIA GPU operator: time-slicing"),
    check=_shared,
)
MPS = Rule(
    id="mps-daemon",
    title="CUDA MPS",
    evidence="the daemon nvidia-cuda-mps-control, and clients of MPS that the driver names",
    vendor=NVIDIA.id,
    disproof="`pgrep -a nvidia-cuda-mps` that finds nothing",
    sources=("CUDA MPS documentation",),
    check=_mps,
)
RULES = (SHARED, MPS)

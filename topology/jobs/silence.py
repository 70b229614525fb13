"""Traffic of a job's GPUs that stopped: by the readings that the app has kept, or by two looks.

Evidence, never a proof: ranks that compute send nothing either. PCIe falls silent only where no
kernel polls over it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from ..hardware.terms import terms_of
from ..model.finding import Finding
from ..model.machine import Machine
from ..model.readings import GpuReading, Readings
from ..model.units import gbs, seconds, size
from ..wiring.gpu_names import gpu_names
from .grouping import Job
from .standing import KnownBy, job_finding
from .traffic import LINKS, PCIE, CarriedTraffic, GpuPast, TrafficPast

STOPPED_SECONDS = 5.0
"""From here on silence is worth a word: a step may take some seconds, and the driver's counters are
read in turns."""
HINT = "a hint that ranks wait, no proof, as ranks that compute send nothing either"
COUNTERS = "between two reads of its counters"
POLLED = "kernels of NCCL that wait poll over it, so that is no sign of progress"


class Silence(msgspec.Struct, frozen=True):
    """Summary of a job's traffic."""

    findings: tuple[Finding, ...] = ()
    brief: str = ""
    """For the sentence: "NVLink fell silent 42 s ago"; "" where it did not, or nobody looked."""
    unknown: tuple[str, ...] = ()


def silence(
    job: Job,
    machine: Machine,
    past: TrafficPast | None,
    traffic: CarriedTraffic | None,
    age: float | None = None,
) -> Silence:
    """Say of each kind since when the job's GPUs carry nothing.

    `age`: of the job in seconds, where that is known: what they carried before was another one's.
    """
    link = terms_of(gpu for gpu in machine.gpus if gpu.address in job.gpus).link
    findings: list[Finding] = []
    unknown: list[str] = []
    briefs: list[str] = []
    for kind, word in ((LINKS, link), (PCIE, PCIE)):
        known = {} if past is None else past.get(kind, {})
        pasts = {gpu: _since(known[gpu], age) for gpu in job.gpus if gpu in known}
        if past is not None and len(pasts) < len(job.gpus):
            rest = gpu_names([gpu for gpu in job.gpus if gpu not in pasts], machine)
            unknown.append(f"what {word} of {rest} carried lately: the driver does not say it")
        if len(job.gpus) < 2 or len(pasts) < len(job.gpus):
            continue
        text = _silent_since(pasts, word, machine)
        if text:
            findings.append(_finding(text))
        quiet = min(gpu.quiet_seconds for gpu in pasts.values())
        if quiet >= STOPPED_SECONDS and any(gpu.before is not None for gpu in pasts.values()):
            briefs.append(f"{word} fell silent {seconds(quiet)} ago")
    if not briefs:
        briefs += _silent_links(job, link, traffic)
    return Silence(tuple(findings), " and ".join(briefs), tuple(unknown))


def _silent_links(job: Job, link: str, traffic: CarriedTraffic | None) -> Iterator[str]:
    """The silence of links between two looks that are far enough apart."""
    if traffic is None or traffic.seconds < STOPPED_SECONDS or len(job.gpus) < 2:
        return
    if all(traffic.nvlink_bytes.get(gpu) == 0 for gpu in job.gpus):
        yield f"{link} carried nothing for {seconds(traffic.seconds)}"


def _since(past: GpuPast, age: float | None) -> GpuPast:
    """What a GPU carried since a job began that is `age` seconds old."""
    if age is None or past.watched_seconds <= age:
        return past
    before = past.before if past.quiet_seconds < age else None
    return GpuPast(min(past.quiet_seconds, age), age, before)


def _silent_since(pasts: Mapping[str, GpuPast], word: str, machine: Machine) -> str:
    """The silence of all GPUs of a job, or of some while the others carry something; else ""."""
    quiet = {gpu: past for gpu, past in pasts.items() if past.quiet_seconds >= STOPPED_SECONDS}
    if not quiet:
        return ""
    names = gpu_names(tuple(quiet), machine)
    since = min(past.quiet_seconds for past in quiet.values())
    before = [past.before for past in quiet.values() if past.before is not None]
    if not before:
        text = f"{word} of {names} carried nothing for {seconds(since)}, as long as gputop watches "
        text += "this job"
    else:
        pace = gbs(sum(before) / len(before) / 1e9)
        text = f"{word} of {names} fell silent {seconds(since)} ago, after {pace} a GPU"
    if len(quiet) < len(pasts):
        return f"{text}, while that of the job's other GPUs carries data"
    return f"{text}: {HINT}"


def traffic_findings(
    job: Job,
    machine: Machine,
    readings: Readings,
    traffic: CarriedTraffic | None,
    shared: Sequence[str],
    *,
    live: bool,
) -> Iterator[Finding]:
    """What links carry, where that may say whether a job goes on.

    `shared`: its GPUs that other jobs use too; `live`: whether the readings are of this machine:
    a demo's figures are those of a job that runs.
    """
    yield from nvlink_finding(job, machine, traffic, shared)
    if live:
        yield from pcie_finding(job, machine, readings, shared)
        yield from xgmi_finding(job, machine, readings, shared)


def nvlink_finding(
    job: Job, machine: Machine, traffic: CarriedTraffic | None, shared: Sequence[str] = ()
) -> Iterator[Finding]:
    """What NVLink carried for the GPUs of a job; nothing unless all of them are known."""
    if traffic is None or len(job.gpus) < 2:
        return
    carried = {gpu: traffic.nvlink_bytes.get(gpu) for gpu in job.gpus}
    known = {gpu: amount for gpu, amount in carried.items() if amount is not None}
    if len(known) < len(carried):
        return
    window = f"in {traffic.seconds:.2g} s"
    # Every byte is sent by one GPU and received by another.
    moved = sum(known.values()) / 2
    pace = gbs(moved / traffic.seconds / 1e9)
    runs = f"NVLink carried {size(moved)} {window} ({pace}): {_moving(shared, machine)}"
    yield _carried("NVLink", known, machine, window, size(moved), runs)


def pcie_finding(
    job: Job, machine: Machine, readings: Readings, shared: Sequence[str] = ()
) -> Iterator[Finding]:
    """What PCIe carries for the GPUs of a job; nothing unless all of them are known.

    The driver's counters are read twice, 25 ms apart. On an H200 two ranks of one job moved 0.86
    GB/s, and 0.15 GB/s with one of them stopped: PCIe is silent only where no kernel polls over it.
    """
    rates = _rates(
        job, readings, lambda gpu: (gpu.pcie_tx_bytes_per_second, gpu.pcie_rx_bytes_per_second)
    )
    if len(job.processes) < 2 or not rates:
        return
    moves = gbs(sum(rates.values()) / 1e9)
    names = gpu_names(tuple(rates), machine)
    runs = f"PCIe of {names} carries {moves}, both ways; {_theirs(shared, machine) or POLLED}"
    hint = "a hint that nothing goes on, no proof"
    yield _carried("PCIe", rates, machine, COUNTERS, moves, runs, hint)


def xgmi_finding(
    job: Job, machine: Machine, readings: Readings, shared: Sequence[str] = ()
) -> Iterator[Finding]:
    """What xGMI carried between two reads of its counters; nothing unless all GPUs are known."""
    rates = _rates(
        job, readings, lambda gpu: (gpu.xgmi_tx_bytes_per_second, gpu.xgmi_rx_bytes_per_second)
    )
    if len(rates) < 2:
        return
    # Every byte is sent by one GPU and received by another.
    moves = gbs(sum(rates.values()) / 2 / 1e9)
    names = gpu_names(tuple(rates), machine)
    runs = f"xGMI of {names} carries {moves}: {_moving(shared, machine)}"
    yield _carried("xGMI", rates, machine, COUNTERS, moves, runs)


def _rates(
    job: Job,
    readings: Readings,
    ways: Callable[[GpuReading], tuple[float | None, float | None]],
) -> dict[str, float]:
    """Bytes a second of each GPU of a job, both ways; {} unless all of them are known."""
    rates: dict[str, float] = {}
    for address in job.gpus:
        reading = readings.gpu(address)
        sent, received = (None, None) if reading is None else ways(reading)
        if sent is None or received is None:
            return {}
        rates[address] = sent + received
    return rates


def _carried(
    link: str,
    carried: Mapping[str, float],
    machine: Machine,
    window: str,
    moved: str,
    runs: str,
    hint: str = HINT,
) -> Finding:
    """The finding about one kind of link; `runs`: the text where all GPUs carry something."""
    quiet = tuple(gpu for gpu, amount in carried.items() if amount == 0)
    text = f"{link} of {gpu_names(quiet, machine)} carried nothing {window}"
    if not quiet:
        return _finding(runs)
    if len(quiet) == len(carried):
        return _finding(f"{text}: {hint}")
    return _finding(f"{text}, while that of the job's other GPUs carried {moved}")


def _finding(text: str) -> Finding:
    return job_finding("traffic", text, KnownBy.DRIVER)


def _theirs(shared: Sequence[str], machine: Machine) -> str:
    """Why traffic may not be that of a job whose GPUs others use too; "" where none does."""
    if not shared:
        return ""
    return f"other jobs use {gpu_names(shared, machine)} too, so it may be theirs"


def _moving(shared: Sequence[str], machine: Machine) -> str:
    """What traffic between GPUs shows of a job."""
    return _theirs(shared, machine) or "data moves between the GPUs"

"""Traffic of a job's GPUs that stopped: by the readings that the app has kept, or by two looks.

Evidence, never a proof: ranks that compute send nothing either. PCIe falls silent only where no
kernel polls over it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from ..hardware.words import words_of
from ..model.machine import Machine
from ..model.readings import Readings
from ..model.units import gbs, seconds
from ..wiring.gpu_names import gpu_names
from .grouping import Job
from .standing import DRIVER, JobFact
from .traffic import CarriedTraffic

LINKS, PCIE = "links", "PCIe"
"""Kinds of traffic: over NVLink or xGMI, and over PCIe."""
STOPPED_SECONDS = 5.0
"""From here on silence is worth a word: a step may take some seconds, and the driver's counters are
read in turns."""


class GpuPast(msgspec.Struct, frozen=True):
    """One kind of traffic of one GPU, as it was read lately."""

    quiet_seconds: float
    """For how long it has carried nothing; 0 where it carries something now."""
    watched_seconds: float
    """How far back the readings go."""
    before: float | None = None
    """Bytes a second, both ways, in its last reading that was not silent; None without any."""


TrafficPast = Mapping[str, Mapping[str, GpuPast]]
"""Kind of traffic -> PCI address -> what was read; without GPUs of which nothing was."""


class Silence(msgspec.Struct, frozen=True):
    """What is said of a job's traffic."""

    facts: tuple[JobFact, ...] = ()
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
    link = words_of(gpu for gpu in machine.gpus if gpu.address in job.gpus).link
    facts: list[JobFact] = []
    unknown: list[str] = []
    briefs: list[str] = []
    for kind, word in ((LINKS, link), (PCIE, PCIE)):
        known = {} if past is None else past.get(kind, {})
        mine = {gpu: _since(known[gpu], age) for gpu in job.gpus if gpu in known}
        if past is not None and len(mine) < len(job.gpus):
            rest = gpu_names([gpu for gpu in job.gpus if gpu not in mine], machine)
            unknown.append(f"what {word} of {rest} carried lately: the driver does not say it")
        if len(job.gpus) < 2 or len(mine) < len(job.gpus):
            continue
        text = _told(mine, word, machine)
        if text:
            facts.append(JobFact(text=text, origin=DRIVER))
        quiet = min(each.quiet_seconds for each in mine.values())
        if quiet >= STOPPED_SECONDS and any(each.before is not None for each in mine.values()):
            briefs.append(f"{word} fell silent {seconds(quiet)} ago")
    if not briefs and traffic is not None and traffic.seconds >= STOPPED_SECONDS:
        carried = [traffic.nvlink_bytes.get(gpu) for gpu in job.gpus]
        if len(job.gpus) > 1 and all(each == 0 for each in carried):
            briefs.append(f"{link} carried nothing for {seconds(traffic.seconds)}")
    return Silence(tuple(facts), " and ".join(briefs), tuple(unknown))


def _since(past: GpuPast, age: float | None) -> GpuPast:
    """What a GPU carried since a job began that is `age` seconds old."""
    if age is None or past.watched_seconds <= age:
        return past
    before = past.before if past.quiet_seconds < age else None
    return GpuPast(min(past.quiet_seconds, age), age, before)


def _told(mine: Mapping[str, GpuPast], word: str, machine: Machine) -> str:
    """The silence of all GPUs of a job, or of some while the others carry something; else ""."""
    quiet = {gpu: past for gpu, past in mine.items() if past.quiet_seconds >= STOPPED_SECONDS}
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
    if len(quiet) < len(mine):
        return f"{text}, while that of the job's other GPUs carries data"
    return f"{text}: a hint that ranks wait, no proof, as ranks that compute send nothing either"


def theirs(shared: Sequence[str], machine: Machine) -> str:
    """Why traffic may not be that of a job whose GPUs others use too; "" where none does."""
    if not shared:
        return ""
    return f"other jobs use {gpu_names(shared, machine)} too, so it may be theirs"


def moving(shared: Sequence[str], machine: Machine) -> str:
    """What traffic between GPUs shows of a job."""
    return theirs(shared, machine) or "data moves between the GPUs"


def xgmi_fact(
    job: Job, machine: Machine, readings: Readings, shared: Sequence[str] = ()
) -> Iterator[JobFact]:
    """What xGMI carried between two reads of its counters; nothing unless all GPUs are known."""
    rates: dict[str, float] = {}
    for gpu in job.gpus:
        found = readings.gpu(gpu)
        sent = None if found is None else found.xgmi_tx_bytes_per_second
        received = None if found is None else found.xgmi_rx_bytes_per_second
        if sent is None or received is None:
            return
        rates[gpu] = sent + received
    if len(rates) < 2:
        return
    quiet: Sequence[str] = [gpu for gpu, rate in rates.items() if rate == 0]
    # Every byte is sent by one GPU and received by another.
    moves = gbs(sum(rates.values()) / 2 / 1e9)
    names = gpu_names(tuple(quiet or rates), machine)
    if len(quiet) == len(rates):
        text = f"xGMI of {names} carried nothing between two reads of its counters: a hint that "
        text += "ranks wait, no proof, as ranks that compute send nothing either"
    elif quiet:
        text = f"xGMI of {names} carried nothing between two reads of its counters, while that of "
        text += f"the job's other GPUs carried {moves}"
    else:
        text = f"xGMI of {names} carries {moves}: {moving(shared, machine)}"
    yield JobFact(text=text, origin=DRIVER)

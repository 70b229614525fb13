"""Turns what a user writes for a GPU into PCI addresses."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gputop.terminal.clean import clean
from gputop.topology.hardware.vendors import AMD, NVIDIA, VENDORS, vendor_of
from gputop.topology.model import units
from gputop.topology.model.errors import GputopError
from gputop.topology.model.machine import Gpu, Machine
from gputop.topology.model.record import by_address
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.nccl.decide.communicator import address_of, left_visible
from gputop.topology.nccl.decide.left_out import unserved_gpus
from gputop.topology.nccl.order import hip_order
from gputop.topology.nccl.settings import Settings
from gputop.topology.nccl.system.ranks import ranks_of
from gputop.topology.nccl.xml.detect import ranked
from gputop.topology.wiring.gpu_names import gpu_label

EVERY = tuple(vendor.id for vendor in VENDORS)
DRIVERS = {"index": EVERY} | {vendor.management.lower(): (vendor.id,) for vendor in VENDORS}
"""Prefix of an index -> the vendors whose GPUs it counts; "index" is a bare number."""
RUNTIMES = {vendor.runtime.lower(): (vendor.id,) for vendor in VENDORS} | {
    NVIDIA.runtime.lower(): EVERY
}
"""PyTorch on ROCm says cuda:N as well."""
VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
KINDS = (*DRIVERS.keys() - {"index"}, *RUNTIMES, "rank")
_GPU = r"\s*(?:gpu)?\s*(\d{1,3})"
PAIR = re.compile(rf"{_GPU}(?:\s*(?:-|→|>|,|to)\s*|\s+){_GPU}\s*", re.IGNORECASE)
"""Two numbers of GPUs: "0 5", "0-5", "gpu0 to gpu5"."""
_RUN = re.compile(
    rf"((?:(?:{'|'.join(KINDS)}):)?|gpu)(\d{{1,3}})-(?:gpu)?(\d{{1,3}})", re.IGNORECASE
)
"""Numbers one after another: "0-3", "rank:4-7", "GPU0-GPU3"."""
_CALLED = re.compile(r"gpu\s*(\d{1,3})", re.IGNORECASE)
"""The name of a GPU on screen."""
ADDRESS = re.compile(r"^(?:([0-9a-fA-F]{4,8}):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})\.([0-7])$")


class SelectionError(GputopError, ValueError):
    """The text names no GPU or is ambiguous; a message of one line."""


def select(words: str | None, machine: Machine, bare: str = "index") -> tuple[str, ...]:
    """Parse a list such as "0,2", "4-7", "GPU3", "0000:1b:00.0,GPU-...", "cuda:0", "rank:3".

    Returns PCI addresses. `bare` says whether a bare number is the driver's index or a rank;
    "amdsmi:1" and "hip:0" are AMD's numbers. None selects all GPUs, without those that the driver
    does not serve while it serves others. Raises SelectionError, also for an index that the
    drivers of two vendors use.
    """
    if words is None:
        hidden, _ = unserved_gpus(machine)
        return tuple(gpu.address for gpu in machine.gpus if gpu.address not in hidden)
    found: list[str] = []
    for word in (each for text in words.split(",") for each in _each(text.strip())):
        address = _one(word, machine, bare)
        if address not in found:
            found.append(address)
    return tuple(found)


def measurable(snapshot: NodeSnapshot) -> tuple[str, ...]:
    """PCI addresses of the GPUs that a run measures where none is named.

    On this machine a list of visible devices in the environment (CUDA_VISIBLE_DEVICES and the
    like) holds for the probes too. If it leaves no GPU, all are meant, and the probe says why none
    can be used.
    """
    served = select(None, snapshot.machine)
    if not snapshot.is_live:
        return served
    visible = left_visible(snapshot.machine, Settings.of(snapshot), [])
    return tuple(gpu for gpu in served if visible is None or gpu in visible) or served


def narrowed(snapshot: NodeSnapshot) -> tuple[str, ...]:
    """The same; () for all where none is hidden."""
    return measurable(snapshot) if hidden_note(snapshot) else ()


def hidden_note(snapshot: NodeSnapshot) -> str:
    """Which GPUs a list of visible devices keeps from being measured; "" where none."""
    kept, served = measurable(snapshot), select(None, snapshot.machine)
    names = [
        gpu_label(gpu)
        for gpu in snapshot.machine.gpus
        if gpu.address in served and gpu.address not in kept
    ]
    settings = Settings.of(snapshot)
    lists = [f"{name}={settings.text(name)}" for name in VISIBLE if settings.text(name) is not None]
    return clean(f"{units.ranged(names)} left out ({', '.join(lists)})", 200) if names else ""


def _each(word: str) -> list[str]:
    """The words that a run of numbers stands for; the word itself where it is none."""
    run = _RUN.fullmatch(word)
    numbers = range(int(run[2]), int(run[3]) + 1) if run else range(0)
    return [f"{run[1]}{number}" for number in numbers] if run and numbers else [word]


def _one(word: str, machine: Machine, bare: str) -> str:
    if word.isdecimal():
        return _by_number(bare, int(word), machine)
    kind, _, number = word.partition(":")
    if kind in KINDS and number.isdecimal():
        return _by_number(kind, int(number), machine)
    match = ADDRESS.match(word)
    if match:
        domain = int(match[1] or "0", 16)
        address = f"{domain:04x}:{match[2]}:{match[3]}.{match[4]}".lower()
        if machine.gpu(address):
            return address
    for gpu in machine.gpus:
        # A part of a package, and a GPU of a text alone, have addresses of another form.
        names = gpu.address, gpu.uuid or "-", gpu_label(gpu)
        if word.lower() in map(str.lower, names):
            return gpu.address
    if called := _CALLED.fullmatch(word):
        return _by_number("index", int(called[1]), machine)
    raise SelectionError(f"no GPU {word!r} here; there are: {_offer(machine.gpus)}")


def _by_number(kind: str, number: int, machine: Machine) -> str:
    by_driver = kind in DRIVERS
    found = _by_driver(kind, number, machine) if by_driver else _in_order(kind, number, machine)
    if found is not None:
        return found
    called = number if kind == "index" else f"{kind}:{number}"
    raise SelectionError(f"no GPU {called} here; there are: {_offer(machine.gpus)}")


def _by_driver(kind: str, number: int, machine: Machine) -> str | None:
    """The GPU that a driver's library counts so."""
    named = [
        gpu.address for gpu in machine.gpus if gpu.index == number and gpu.vendor in DRIVERS[kind]
    ]
    if not named and kind == "index":
        # Where no library counts the GPUs, a bare number is the one on screen.
        named = [gpu.address for gpu in machine.gpus if gpu.place == number]
    if len({gpu.vendor for gpu in machine.gpus if gpu.address in named}) > 1:
        raise SelectionError(
            f"{number} is a GPU of each vendor here: write nvml:{number}, amdsmi:{number} or "
            f"an address of {_offer(machine.gpus)}"
        )
    return named[0] if named else None


def _in_order(kind: str, number: int, machine: Machine) -> str | None:
    """The GPU of a rank, or of a device of a runtime.

    Both follow the PCI order among GPUs of one model. CUDA puts faster models first, and no source
    reports which model that is.
    """
    able = [gpu for gpu in machine.gpus if kind == "rank" or gpu.vendor in RUNTIMES[kind]]
    if kind != "rank" and len({(gpu.vendor, gpu.name) for gpu in able}) > 1:
        raise SelectionError(f"{kind}:N is ambiguous with GPUs of several models; use an address")
    ordered = _by_rank(machine) if kind == "rank" else _by_runtime(able)
    return ordered[number] if number < len(ordered) else None


def _by_rank(machine: Machine) -> list[str]:
    """Addresses by rank: from a topology XML that names GPUs, else in the library's order."""
    known = machine.nccl_topology
    if known is None or not known.has("gpu"):
        return [gpu.address for gpu in ranked(machine)]
    ranks = ranks_of(known)
    ordered = sorted(ranks.items(), key=lambda item: item[1])
    return [address_of(bus) for (_, bus), _ in ordered]


def _by_runtime(gpus: Sequence[Gpu]) -> list[str]:
    """Addresses by CUDA index for GPUs of one model: PCI order; HIP has its own order."""
    known = list(by_address(gpus).values())
    amd = bool(known) and vendor_of(known[0]) is AMD
    return [gpu.address for gpu in (hip_order(known) if amd else known)]


def _offer(gpus: Sequence[Gpu]) -> str:
    named = [f"{'-' if gpu.number is None else gpu.number} = {gpu.address}" for gpu in gpus]
    return ", ".join(named) or "none"

"""What a person writes for a GPU becomes a PCI address."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gputop.topology.model.machine import Gpu, Machine
from gputop.topology.nccl.decide.unserved import unserved_gpus

DRIVERS = {"index": ("nvidia", "amd"), "nvml": ("nvidia",), "amdsmi": ("amd",)}
"""Whose GPUs have an index under that name; a bare number is the index of either."""
RUNTIMES = {"cuda": ("nvidia", "amd"), "hip": ("amd",)}
"""PyTorch on ROCm says cuda:N as well."""
KINDS = ("nvml", "amdsmi", "cuda", "hip", "rank")
ADDRESS = re.compile(r"^(?:([0-9a-fA-F]{4,8}):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})\.([0-7])$")


class SelectionError(ValueError):
    """No such GPU, or the words do not say which; one line."""


def select(words: str | None, machine: Machine, bare: str = "index") -> tuple[str, ...]:
    """PCI addresses for a list such as "0,2", "0000:1b:00.0,GPU-...", "nvml:1", "cuda:0", "rank:3".

    A bare number is the driver's index or a rank, as `bare` says; "amdsmi:1" and "hip:0" are AMD's
    numbers. Without words: all GPUs but those that no driver serves here while it serves others.
    Raises SelectionError, also for an index that both vendors' drivers give out.
    """
    if words is None:
        hidden, _ = unserved_gpus(machine)
        return tuple(gpu.address for gpu in machine.gpus if gpu.address not in hidden)
    found: list[str] = []
    for word in words.split(","):
        address = _one(word.strip(), machine, bare)
        if address not in found:
            found.append(address)
    return tuple(found)


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
        if gpu.uuid is not None and gpu.uuid.lower() == word.lower():
            return gpu.address
    raise SelectionError(f"no GPU {word!r} here; there are: {_offer(machine.gpus)}")


def _by_number(kind: str, number: int, machine: Machine) -> str:
    if kind in DRIVERS:
        named = [
            gpu.address
            for gpu in machine.gpus
            if gpu.index == number and gpu.vendor in DRIVERS[kind]
        ]
        if not named and kind == "index":
            # Where no library counts, a bare number is the one on screen.
            named = [gpu.address for gpu in machine.gpus if gpu.place == number]
        if len({gpu.vendor for gpu in machine.gpus if gpu.address in named}) > 1:
            raise SelectionError(
                f"{number} is a GPU of each vendor here: write nvml:{number}, amdsmi:{number} or "
                f"an address of {_offer(machine.gpus)}"
            )
        if named:
            return named[0]
    else:
        # Ranks and CUDA devices follow the PCI order among GPUs of one model; CUDA puts faster
        # models first, which no source here can tell.
        able = [gpu for gpu in machine.gpus if kind == "rank" or gpu.vendor in RUNTIMES[kind]]
        if kind != "rank" and len({(gpu.vendor, gpu.name) for gpu in able}) > 1:
            raise SelectionError(
                f"{kind}:N is ambiguous with GPUs of several models; use an address"
            )
        ordered = _by_rank(machine) if kind == "rank" else _by_runtime(able)
        if number < len(ordered):
            return ordered[number]
    called = number if kind == "index" else f"{kind}:{number}"
    raise SelectionError(f"no GPU {called} here; there are: {_offer(machine.gpus)}")


def _by_rank(machine: Machine) -> list[str]:
    """Addresses by rank: as a topology XML says, else as the library would count them."""
    if machine.nccl_topology is None:
        from gputop.topology.nccl.xml.detect import ranked

        return [gpu.address for gpu in ranked(machine)]
    from gputop.topology.nccl.decide.communicator import address_of
    from gputop.topology.nccl.system.ranks import ranks_of

    ranks = ranks_of(machine.nccl_topology)
    ordered = sorted(ranks.items(), key=lambda item: item[1])
    return [address_of(bus) for (_, bus), _ in ordered]


def _by_runtime(gpus: Sequence[Gpu]) -> list[str]:
    """Addresses as CUDA counts GPUs of one model, in PCI order; HIP has an order of its own."""
    from gputop.topology.nccl.order import hip_order

    known = list({gpu.address: gpu for gpu in gpus}.values())
    amd = bool(known) and known[0].vendor == "amd"
    return [gpu.address for gpu in (hip_order(known) if amd else known)]


def _offer(gpus: Sequence[Gpu]) -> str:
    named = [f"{'-' if gpu.number is None else gpu.number} = {gpu.address}" for gpu in gpus]
    return ", ".join(named) or "none"

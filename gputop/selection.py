"""What a person writes for a GPU becomes a PCI address."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gputop.topology.machine import Gpu, Machine

ADDRESS = re.compile(r"^(?:([0-9a-fA-F]{4,8}):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})\.([0-7])$")


class SelectionError(ValueError):
    """No such GPU, or the words do not say which; one line."""


def select(words: str | None, machine: Machine, bare: str = "nvml") -> tuple[str, ...]:
    """PCI addresses for a list such as "0,2", "0000:1b:00.0,GPU-...", "nvml:1", "cuda:0", "rank:3".

    A bare number is an NVML index or a rank, as `bare` says. Without words: all GPUs. Raises
    SelectionError.
    """
    if words is None:
        return tuple(gpu.address for gpu in machine.gpus)
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
    if kind in ("nvml", "cuda", "rank") and number.isdecimal():
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
    if kind == "nvml":
        for gpu in machine.gpus:
            if gpu.index == number:
                return gpu.address
    else:
        # Ranks and CUDA devices follow the PCI order among GPUs of one model; CUDA puts faster
        # models first, which no source here can tell.
        if kind == "cuda" and len({gpu.name for gpu in machine.gpus}) > 1:
            raise SelectionError("cuda:N is ambiguous with GPUs of several models; use an address")
        ordered = _by_rank(machine) if kind == "rank" else [gpu.address for gpu in machine.gpus]
        if number < len(ordered):
            return ordered[number]
    raise SelectionError(f"no GPU {kind}:{number} here; there are: {_offer(machine.gpus)}")


def _by_rank(machine: Machine) -> list[str]:
    """Addresses by rank: as a topology XML says, else in PCI order."""
    if machine.nccl_topology is None:
        return [gpu.address for gpu in machine.gpus]
    from gputop.topology.nccl.communicator import address_of
    from gputop.topology.nccl.ranks import ranks_of

    ranks = ranks_of(machine.nccl_topology)
    ordered = sorted(ranks.items(), key=lambda item: item[1])
    return [address_of(bus) for (_, bus), _ in ordered]


def _offer(gpus: Sequence[Gpu]) -> str:
    named = [f"{'-' if gpu.index is None else gpu.index} = {gpu.address}" for gpu in gpus]
    return ", ".join(named) or "none"

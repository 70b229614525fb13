"""A machine with GPUs of both vendors, made of the raw answers of two demos.

Two of the L40S cards and four MI300X, the latter in a PCI domain of their own. What there is once
in a machine (host, network, software) is as the cards' host has it, with ROCm beside CUDA.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec
from msgspec.structs import replace

from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.node import Node
from gputop.topology.recorded.demos import amd, demo, network, pci, pci_tree
from gputop.topology.recorded.demos.shape import DemoShape, load
from gputop.topology.report import Report
from gputop.topology.sources.collect import merge

CARDS, PACKAGES = 2, 4
TICK = 7


def raw(tick: int = TICK) -> dict[str, Any]:
    """The raw answers by source, as a recording of such a machine holds them."""
    answers = demo.raw("pcie-l40s-8", tick)
    for name in ("nvml", "nvml_readings"):
        answers[name] = answers[name] | {"devices": answers[name]["devices"][:CARDS]}
    shape, functions = _amd()
    cards = pci_tree.functions(load("pcie-l40s-8"))
    left_out = {
        function.address
        for function in cards
        if function.kind == "gpu" and function.number >= CARDS
    }
    gone = {
        function.address
        for function in functions
        if function.kind == "gpu" and function.number >= PACKAGES
    }
    theirs = pci.answer(shape, functions)
    devices = answers["pci"]["devices"] | theirs["devices"]
    answers["pci"] |= {
        "names": answers["pci"]["names"] | theirs["names"],
        "devices": {k: v for k, v in devices.items() if k not in left_out | gone},
    }
    answers["software"] = answers["software"] | {
        "files": answers["software"]["files"] | network.software(shape)["files"]
    }
    gpus = tuple(
        function for function in functions if function.kind == "gpu" and function.number < PACKAGES
    )
    return answers | {
        "amdsmi": amd.answer(shape, gpus),
        "amdsmi_readings": amd.readings(shape, gpus, tick),
    }


def _amd() -> tuple[DemoShape, tuple[pci_tree.Function, ...]]:
    shape = load("mi300x-8")
    slots = tuple(
        msgspec.structs.replace(slot, root=f"0001{slot.root[4:]}")
        for slot in shape.slot
        if slot.device is None
    )
    shape = msgspec.structs.replace(shape, slot=slots)
    return shape, pci_tree.functions(shape)


@cache
def mixed(tick: int = TICK) -> NodeSnapshot:
    """The snapshot of it: a guest, as no board of MI300X holds four."""
    parts = tuple(demo.parts(raw(tick)).values())
    found = merge(parts, taken_at=1_700_000_000.0, source=("mixed",), gputop="0")
    assert found.machine.host is not None
    host = replace(found.machine.host, hypervisor="KVM")
    return replace(found, machine=replace(found.machine, host=host))


def mixed_report() -> Report:
    """A report on it, with the prediction made."""
    return Report(Node(mixed()).decide())

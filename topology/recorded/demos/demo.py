"""Demos: reference nodes as raw answers that the ordinary parsers turn into a snapshot.

Each demo is one file in shapes/. Addresses follow from its PCI tree, every identity is invented,
and moving figures are a pure function of the tick, so that a test sees what a person sees.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...hardware.unconfirmed import sentence
from ...hardware.unconfirmed import unconfirmed as of_node
from ...hardware.vendors import AMD
from ...model.part import PartialNode
from ...sources import load as load_source
from . import nvml as nvml_answers
from . import pci_tree, readings
from .pci_tree import GPU
from .shape import DemoError, DemoShape, load, names

__all__ = ["DemoError", "moving", "names", "parts", "raw", "title", "unconfirmed"]

_FUNCTIONS: dict[str, tuple[pci_tree.Function, ...]] = {}


def title(name: str) -> str:
    """One line on what a demo shows."""
    return load(name).title


def unconfirmed(name: str) -> str:
    """What no source confirms about the node that a demo is like, as a phrase; "" for nothing."""
    return sentence(of_node(load(name).like))


def raw(name: str, tick: int) -> dict[str, Any]:
    """A demo's raw answers by source id, shaped as the readers of the sources give them."""
    shape, functions = _laid_out(name)
    from . import host, network, pci, processes, storage  # the first picture does not need them

    answers = {
        "pci": pci.answer(shape, functions),
        "host": host.answer(shape),
        "network": network.network(shape, functions),
        "storage": storage.answer(functions),
        "software": network.software(shape),
        "processes": processes.answer(shape, _gpus(functions)),
    }
    return opening(name, tick) | {name: answer for name, answer in answers.items() if answer}


def opening(name: str, tick: int) -> dict[str, Any]:
    """The raw answers that a first picture needs: the GPUs and their figures."""
    shape, functions = _laid_out(name)
    if shape.gpu.vendor == AMD.id:
        from . import amd

        return {"amdsmi": amd.answer(shape, _gpus(functions))} | moving(name, tick)
    return {"nvml": nvml_answers.answer(shape, functions)} | moving(name, tick)


def moving(name: str, tick: int) -> dict[str, Any]:
    """The raw answers that differ from tick to tick."""
    shape, functions = _laid_out(name)
    gpus, carried = _gpus(functions), {}
    if tick > 0:  # the first look at a counter tells no rate
        from . import nics

        carried = {"counters": nics.counters(shape, functions, tick)}
    if shape.gpu.vendor == AMD.id:
        from . import amd

        return {"amdsmi_readings": amd.readings(shape, gpus, tick), **carried}
    return {"nvml_readings": readings.readings(shape, gpus, tick), **carried}


def parts(answers: dict[str, Any]) -> dict[str, PartialNode]:
    """Parse raw answers, each with the parser of its own source."""
    return {source: _parser(source)(answer) for source, answer in answers.items()}


def _parser(name: str) -> Callable[[Any], PartialNode]:
    return load_source(name).parse


def _gpus(functions: tuple[pci_tree.Function, ...]) -> tuple[pci_tree.Function, ...]:
    return tuple(function for function in functions if function.kind is GPU)


def _laid_out(name: str) -> tuple[DemoShape, tuple[pci_tree.Function, ...]]:
    shape = load(name)
    if name not in _FUNCTIONS:
        _FUNCTIONS[name] = pci_tree.functions(shape)
    return shape, _FUNCTIONS[name]

"""A probe from the wish to the last figure, for the app and the command line alike.

Synchronous: whoever calls gives it a thread, and that thread lives as long as the probe.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from gputop.busy import Verdict, judge, sample
from gputop.probes import catalog, protocol
from gputop.probes.client import run_probe
from gputop.probes.interpreters import Choice, find_interpreter
from gputop.probes.outcome import Outcome
from gputop.probes.spec import ProbeSpec
from gputop.topology.machine import Machine
from gputop.topology.snapshot import Measurement
from gputop.topology.sources.source import SourceAbsent
from gputop.topology.wiring.letters import Relations

QUANTITIES = {
    "access": "can_access",
    "arrival": "bytes_arrive",
    "one-way": "write_bandwidth",
    "both-ways": "both_ways_bandwidth",
    "together": "together_bandwidth",
    "latency": "latency",
    "collective": "collective_finishes",
    "init": "communicator_init",
    "all-reduce-algbw": "all_reduce_algbw",
    "all-reduce-busbw": "all_reduce_busbw",
    "send-receive": "send_receive",
}
"""The worker's words -> the words of a snapshot."""

DRIVER_DEADLINE_SECONDS = 3.0
RANKS_SECONDS = 6.0
"""A probe with several processes gives up so much sooner than the run, to bring its logs back."""


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody wants measured."""

    probe: str
    addresses: tuple[str, ...]
    """PCI addresses; empty with `selftest`."""
    names: tuple[tuple[str, str], ...] = ()
    """(address, name for people) for messages."""
    kinds: tuple[tuple[str, str], ...] = ()
    """("SRC DST", letters of the relation): pairs of one kind are compared with each other."""
    force: bool = False
    """Measure although a GPU is in use."""
    selftest: bool = False
    """Run on the CPU to try the machinery; the figures say nothing about a GPU."""
    python: str | None = None
    deadline_seconds: float | None = None
    params: tuple[tuple[str, Any], ...] = ()


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What is known when a run is over."""

    outcome: Outcome
    choice: Choice | None = None
    measurements: tuple[Measurement, ...] = ()
    blind: tuple[str, ...] = ()
    """What the busy check could not see."""
    forcible: bool = False
    """Whether `force` would have gone on."""


def measure(
    wish: Wish,
    on_event: Callable[[protocol.Message], None],
    cancel: threading.Event,
    on_start: Callable[[Choice], None] = lambda choice: None,
) -> Told:
    """Find a Python, look whether the GPUs are free, run the probe; every end is an Outcome."""
    started = time.monotonic()
    spec: ProbeSpec = catalog.load(wish.probe).SPEC
    if not wish.selftest and len(wish.addresses) < spec.minimum_gpus:
        text = f"{wish.probe} needs {spec.minimum_gpus} GPUs, and {len(wish.addresses)} was chosen."
        return Told(outcome=Outcome("refused", text, 0.0))
    checked: list[Verdict] = []
    # The look at the GPUs and the search for a Python wait on different things.
    check = threading.Thread(
        target=lambda: checked.append(_look(wish)), name="busy check", daemon=True
    )
    check.start()
    choice = find_interpreter(wish.python)
    check.join(DRIVER_DEADLINE_SECONDS)
    # A driver that hangs is no place to start a measurement in, unless somebody insists.
    hangs = "the driver did not answer in time whether the GPUs are in use"
    verdict = checked[0] if checked else Verdict(busy=(hangs,))
    elapsed = round(time.monotonic() - started, 3)
    if verdict.busy and not wish.force:
        text = "; ".join(verdict.busy) + ". Nothing was measured; it can be forced."
        return Told(outcome=Outcome("refused", text, elapsed), blind=verdict.blind, forcible=True)
    if choice.chosen is None:
        text = " ".join(choice.sentences())
        return Told(outcome=Outcome("no-torch", text, elapsed), choice=choice)
    on_start(choice)
    seconds = wish.deadline_seconds or spec.deadline_seconds(len(wish.addresses))
    request = protocol.Request(
        probe=wish.probe,
        devices=wish.addresses,
        params={
            "force": wish.force,
            "selftest": wish.selftest,
            "kinds": dict(wish.kinds),
            "seconds": max(seconds - RANKS_SECONDS, seconds / 2),
            **dict(wish.params),
        },
    )
    outcome = run_probe(
        request,
        choice.chosen.path,
        on_event,
        seconds,
        cancel,
        private_folder=spec.private_folder,
    )
    return Told(
        outcome=outcome,
        choice=choice,
        measurements=tuple(
            to_measurement(figure, wish.probe, outcome.hello) for figure in outcome.latest()
        ),
        blind=verdict.blind,
    )


def wish_for(
    probe: str, machine: Machine, addresses: tuple[str, ...], *, force: bool = False, **more: Any
) -> Wish:
    """A wish with what the machine says about these GPUs (none named: all) and their relations."""
    relations = Relations(machine)
    addresses = addresses or tuple(gpu.address for gpu in machine.gpus)
    return Wish(
        probe=probe,
        addresses=addresses,
        names=tuple(
            (gpu.address, gpu.address if gpu.index is None else f"GPU{gpu.index}")
            for gpu in machine.gpus
        ),
        kinds=tuple(
            (f"{src} {dst}", relations.between(src, dst).letters)
            for src in addresses
            for dst in addresses
            if src != dst
        ),
        force=force,
        **more,
    )


def to_measurement(
    figure: protocol.Measurement, probe: str, hello: protocol.Hello | None
) -> Measurement:
    """A worker's figure as the record that snapshots keep."""
    return Measurement(
        probe=probe,
        quantity=QUANTITIES.get(figure.name, figure.name),
        src=figure.src or None,
        dst=figure.dst or None,
        value=figure.value,
        unit=figure.unit,
        low=figure.minimum,
        high=figure.maximum,
        samples=len(figure.samples) or None,
        bytes_per_copy=figure.bytes_per_copy,
        copies_per_sample=figure.copies_per_sample,
        engine=figure.engine,
        direction=figure.direction,
        verdict=figure.verdict,
        why_none=figure.why,
        method=figure.method,
        device_kind=figure.device_kind,
        taken_at=time.time(),
        versions=_versions(hello),
        variant=figure.variant or None,
        counted=figure.counted or None,
        details=dict(figure.details),
    )


def _versions(hello: protocol.Hello | None) -> tuple[tuple[str, str], ...]:
    if hello is None:
        return ()
    named = {
        "python": hello.python,
        "torch": hello.torch,
        "cuda": hello.cuda,
        "hip": hello.hip,
        "driver": hello.driver,
        "nccl": hello.nccl,
    }
    return tuple((name, version) for name, version in named.items() if version)


def _look(wish: Wish) -> Verdict:
    """Ask the driver three times whether the GPUs are in use."""
    if wish.selftest or not wish.addresses:
        return Verdict()
    from gputop.topology.sources import nvml_readings

    try:
        read = nvml_readings.SOURCE.reader()
        samples: Sequence[Any] = sample(lambda: nvml_readings.SOURCE.parse(read()).gpu_readings)
    except SourceAbsent as absent:
        return Verdict(blind=(f"whether the GPUs are in use is unknown: {absent}",))
    except Exception as error:  # noqa: BLE001 - the source border: a failing driver is no answer
        return Verdict(blind=(f"whether the GPUs are in use is unknown: {error}",))
    return judge(samples, wish.addresses, dict(wish.names))

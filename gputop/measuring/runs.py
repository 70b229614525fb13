"""Requests to workers, and their answers as records of a snapshot."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from gputop.measuring.selection import select
from gputop.measuring.state import ProbeRequest, ProbeRun
from gputop.probes.protocol import messages as protocol
from gputop.probes.protocol.outcome import Outcome
from gputop.probes.protocol.spec import ProbeSpec
from gputop.probes.protocol.status import Status
from gputop.probes.runner.nccl_library import NcclLibrary
from gputop.terminal.clean import clean
from gputop.topology.model.machine import Machine
from gputop.topology.model.snapshot import DataVerdict, Measurement
from gputop.topology.wiring.codes import Relations
from gputop.topology.wiring.gpu_names import gpu_label
from gputop.topology.wiring.likeness import likeness

RANKS_SECONDS = 6.0
"""How much earlier than its deadline a probe with ranks gives up, to return its logs."""
MOST_NOTES = 40
"""How many lines of a probe's notes are shown."""
NOTE_LIMIT = 500
"""Longest shown line of a note, in characters."""


def request_for(
    probe: str,
    machine: Machine,
    addresses: tuple[str, ...],
    *,
    params: tuple[tuple[str, Any], ...] = (),
    **more: Any,
) -> ProbeRequest:
    """Build a request for these GPUs (none named: all), with their names and relations."""
    return requests_for((probe,), machine, addresses, params={probe: params}, **more)[0]


def requests_for(
    probes: tuple[str, ...],
    machine: Machine,
    addresses: tuple[str, ...],
    *,
    params: Mapping[str, tuple[tuple[str, Any], ...]] | None = None,
    **more: Any,
) -> tuple[ProbeRequest, ...]:
    """A request for each probe; `params`: further parameters by name of the probe."""
    relations = Relations(machine)
    addresses = addresses or select(None, machine)
    names = tuple((gpu.address, gpu_label(gpu)) for gpu in machine.gpus)
    kinds = tuple(
        (f"{src} {dst}", _kind(machine, relations, src, dst))
        for src in addresses
        for dst in addresses
        if src != dst
    )
    return tuple(
        ProbeRequest(
            probe=probe,
            addresses=addresses,
            names=names,
            kinds=kinds,
            params=(params or {}).get(probe, ()),
            **more,
        )
        for probe in probes
    )


def _kind(machine: Machine, relations: Relations, src: str, dst: str) -> str:
    """The kind of a pair: equal for pairs that should be equally fast."""
    letters = relations.between(src, dst).code
    one, other = machine.gpu(src), machine.gpu(dst)
    return letters if one is None or other is None else likeness(letters, one, other)


def worker_request(
    request: ProbeRequest, seconds: float, library: NcclLibrary | None = None
) -> protocol.WorkerRequest:
    """The message to the worker; `seconds`: its deadline, `library`: what it loads by itself."""
    loaded = (
        {}
        if library is None
        else {
            "library": library.path,
            "library_found": library.how_found,
            "library_named": library.named,
        }
    )
    return protocol.WorkerRequest(
        probe=request.probe,
        devices=request.addresses,
        params={
            "level": request.level,
            "force": request.force,
            "selftest": request.selftest,
            "kinds": dict(request.kinds),
            "seconds": max(seconds - RANKS_SECONDS, seconds / 2),
            **dict(request.params),
            **loaded,
        },
    )


def seconds_of(request: ProbeRequest, spec: ProbeSpec, gpus: int) -> float:
    """Deadline of a run."""
    return request.deadline_seconds or spec.deadline_seconds(gpus, request.level)


def stop_after(run: ProbeRun) -> Outcome | None:
    """The end of all later probes where the driver opens no GPU in time: each would wait so."""
    outcome = run.outcome
    if run.status != Status.TIMED_OUT or outcome.hello is not None or outcome.measurements:
        return None
    waited = f"{run.name} waited {outcome.elapsed_seconds:.0f} s for the driver to open the GPUs"
    return Outcome(Status.REFUSED, f"Not begun: {waited}.", 0.0)


def measurements_of(
    request: ProbeRequest, outcome: Outcome, busy: tuple[str, ...] = ()
) -> tuple[Measurement, ...]:
    """The figures of a run; `busy`: reasons against it that the user overrode."""
    return tuple(
        to_measurement(figure, request.probe, outcome.hello, circumstances(request, figure, busy))
        for figure in outcome.latest()
    )


def with_names(text: str, names: Mapping[str, str]) -> str:
    """Replace the addresses of GPUs in a worker's text by their labels."""
    for address in sorted(names, key=len, reverse=True):  # one address may be the start of another
        text = text.replace(address, names[address])
    return text


def note_lines(notes: Iterable[protocol.Note], names: Mapping[str, str]) -> tuple[str, ...]:
    """The lines of a worker's notes as plain text: each once, no empty ones, bounded.

    `names`: the label of a GPU by address.
    """
    lines = (
        clean(with_names(line.strip(), names), NOTE_LIMIT)
        for note in notes
        for line in note.text.splitlines()
    )
    return tuple(dict.fromkeys(line for line in lines if line))[:MOST_NOTES]


def circumstances(
    request: ProbeRequest, figure: protocol.MeasuredValue, busy: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Details that the worker does not know: the devices, and foreign processes on them.

    `busy`: sentences of the busy check that the user overrode; each begins with a label.
    """
    ends = [*filter(None, (figure.src, figure.dst))]
    found: dict[str, Any] = {}
    count = len(request.addresses)
    if not ends and count and figure.details.get("ranks", count) == count:
        found["devices"] = list(request.addresses)
    names = [name for address, name in request.names if address in ends]
    begins = tuple(name + after for name in names for after in (" ", ":"))
    concerned = [sentence for sentence in busy if not ends or sentence.startswith(begins)]
    if concerned:
        found["forced"] = "; ".join(concerned)
    return found


def to_measurement(
    figure: protocol.MeasuredValue,
    probe: str,
    hello: protocol.Hello | None,
    more: Mapping[str, Any] | None = None,
) -> Measurement:
    """Turn a worker's figure into the record of a snapshot; `more`: further details."""
    return Measurement(
        probe=probe,
        quantity=figure.name,
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
        way=figure.direction,
        verdict=None if figure.verdict is None else DataVerdict(figure.verdict),
        why_none=figure.why,
        method=figure.method,
        device_kind=figure.device_kind,
        taken_at=time.time(),
        versions=_versions(hello),
        variant=figure.variant or None,
        counted=figure.counted or None,
        details={**(more or {}), **figure.details},
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
        hello.library_name.lower(): hello.nccl,
    }
    return tuple((name, version) for name, version in named.items() if version)

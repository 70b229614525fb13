"""Faults that the kernel's log tells of: a rule for each group of hardware/faults/kernel.toml.

A line proves what happened, not what is: what ended since, or what the driver of now denies, is a
notice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby

import msgspec

from ....hardware.faults.catalogue import (
    ASK,
    FaultGroup,
    KernelFault,
    fault_of,
    fixes,
    groups,
    told,
)
from ....model.finding import Finding
from ....model.kernel_event import KernelEvent, KernelSource
from ....model.severity import Sureness
from ....sources.nvidia.recovery import NONE
from ...case import Case
from ...rule import Found, NotRead, Proof, Rule

MOST_SHOWN = 6
DENIED, ELSEWHERE = "the driver asks for nothing now", "no GPU and no NIC of this node is there"
ANSWERS = "the GPU answers the driver again"
LOST = "xid-bus"
UNDATED = "; the same text shows the GPU answering: which of the two is older, it does not say"
Told = tuple[KernelEvent, KernelFault]


def log_read(case: Case) -> bool:
    """Whether lines of a kernel's log were read: what NVML told alone says nothing of the rest."""
    events = case.snapshot.kernel_events or ()
    return case.snapshot.has_answered("kernel_log") or any(not event.heard for event in events)


def told_in(case: Case) -> list[Told]:
    """The events with their meaning, as far as the node of now does not speak against them."""
    events = case.snapshot.kernel_events or ()
    if not events and not log_read(case):
        raise NotRead("the kernel's log")
    software = case.machine.software
    version = (software.nvidia_driver or "").partition(".")[0] if software is not None else ""
    driver = int(version) if version.isdecimal() and len(version) < 6 else None
    asking = [event for event in events if event.code == "154" and not event.over]
    acts = {event.device: fault_of(event, driver).act for event in asking}
    asked = {device: act for device, act in acts.items() if act != ASK}
    found = []
    for event in events:
        now = msgspec.structs.replace(event, over=event.over or _denied(case, event))
        fault = fault_of(now, driver)
        if fault.rule == LOST and case.on_node and _answers(case, event) and not now.over:
            now = msgspec.structs.replace(now, over=ANSWERS)
            fault = fault_of(now, driver)
        if fault.severity.counts and fault.unit != "program" and asked.get(event.device):
            fault = fault.but(act=asked[event.device])  # the driver knows better than any table
        if event.code != "154" or not event.said.startswith("0x0 "):
            found.append((now, fault))
    return found


def _denied(case: Case, event: KernelEvent) -> str:
    """Why an event says nothing of the node as it is now; "" where it may."""

    def there(address: str | None) -> bool:
        return address is not None and event.device in (address, *case.above(address))

    gpus = [gpu for gpu in case.gpus if there(gpu.address) or there(gpu.parent)]
    readings = [case.reading(gpu) for gpu in gpus]
    if case.on_node and gpus and all(now and now.recovery_action == NONE for now in readings):
        return DENIED
    nics = {nic.address for nic in case.machine.rdma}
    nics |= {interface.address for interface in case.machine.interfaces}
    known = event.kind is KernelSource.LINE and case.pci(event.device or "") is not None
    return ELSEWHERE if known and not (gpus or any(map(there, nics))) else ""


def _answers(case: Case, event: KernelEvent) -> bool:
    """Whether the driver gave readings of the GPU that an event is about."""
    readings = [case.reading(gpu) for gpu in case.gpus if gpu.address == event.device]
    return any(now is not None and now.temperature_c is not None for now in readings)


def _checked(group: FaultGroup) -> Callable[[Case], Found]:
    def check(case: Case) -> Found:
        mine = [(event, fault) for event, fault in told_in(case) if fault.rule == group.id]
        if not mine and not log_read(case):
            raise NotRead("the kernel's log")
        mine.sort(key=lambda one: (one[1].severity.order, one[1].general))
        return [
            _finding(case, group, list(alike))
            for _, alike in groupby(mine, key=lambda one: one[1].severity)
        ]

    return check


def _finding(case: Case, group: FaultGroup, found: list[Told]) -> Finding:
    """One finding for all faults of a group that are equally harmful; its title is of the first."""
    event, fault = found[0]
    devices = tuple(dict.fromkeys(one.device for one, _ in found if one.device))
    place = where(case, event) if len(found) == 1 else case.names(devices[:MOST_SHOWN])
    says = fault.told(event.details)
    title = f"{place}: {says}" if place else says
    title += f" ({fault.label})" if fault.label else ""
    kinds: dict[tuple[str, str], Told] = {}
    for about, one in found:
        kinds.setdefault((one.label, one.told(about.details)), (about, one))
    if len(kinds) > 1:
        title += f", and {len(kinds) - 1} more kind{'s' * (len(kinds) > 2)} of fault"
    if all(one.over for one, _ in found):
        title += f"; since then {event.over}"
    elif group.id == LOST and all(_answers(case, one) for one, _ in found):
        title, fault = title + UNDATED, fault.but(sure=Sureness.POSSIBLE)
    steps = [step for about, one in kinds.values() for step in fixes(one, about.device)]
    sources = dict.fromkeys(text for _, one in found for text in one.source.split("; ") if text)
    made = RULE_OF[group.id].finding(
        fault.severity,
        title,
        devices=devices,
        evidence=[proof for one in found[:MOST_SHOWN] for proof in _proofs(case, *one)],
        impact=group.impact,
        fix=tuple({step.text: step for step in reversed(steps)}.values())[::-1],
    )
    return msgspec.structs.replace(
        made,
        look=group.look,
        sureness=fault.sure,
        sources=tuple(sources) or made.sources,
        count=sum(one.count for one, _ in found),
    )


def _proofs(case: Case, event: KernelEvent, fault: KernelFault) -> Iterator[Proof]:
    often = f"{event.count} lines" if event.count > 1 else ""
    when = event.first if event.first == event.last else f"{event.first} to {event.last}"
    said = filter(None, (where(case, event), *event.programs[:3], often, when))
    source = "NVML" if event.heard else "kernel log"
    yield f"{fault.label or 'line'}: {', '.join(said)}", event.text, source
    for word, says in told(event):
        yield f"what {word} means", says, fault.source


def where(case: Case, event: KernelEvent) -> str:
    """The device by its name, with the link and what is at its other end where that is known."""
    name = case.name(event.device) if event.device else ""
    name = f"{event.name} ({name})" if event.name and name else event.name or name
    if event.link is None:
        return name
    kind = "port" if event.kind is KernelSource.SXID else "NVLink"
    end = _other_end(case, event)
    return f"{name}, {kind} {event.link}{f' (to {end})' if end else ''}"


def _other_end(case: Case, event: KernelEvent) -> str:
    for gpu in case.machine.gpus:
        for link in gpu.nvlinks:
            if (gpu.address, link.link) == (event.device, event.link) and link.remote_address:
                return case.name(link.remote_address)
            if (link.remote_address, link.remote_link) == (event.device, event.link):
                return f"NVLink {link.link} of {case.name(gpu)}"
    return ""


RULES = tuple(
    Rule(
        id=group.id,
        title=group.title,
        evidence="the kernel's log, as far as this user may read it",
        disproof="a kernel's log without such a line since the last start of the host",
        sources=("docs/kernel-faults.md",),
        check=_checked(group),
        implied_by=group.after,
        extra=True,
        without_gpus=True,
    )
    for group in groups()
)
RULE_OF = {rule.id: rule for rule in RULES}

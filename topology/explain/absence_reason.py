"""One cause why no GPU is seen, and the words that the causes of both vendors share."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..model.machine import PciDevice
from ..model.snapshot import NodeSnapshot, Problem
from ..model.surroundings import Host
from ..sources.linux.device_nodes import KEPT_BACK, NO_PERMISSION

CLOSED = (NO_PERMISSION, KEPT_BACK)
"""The entry of a device node ends with one of these when this process may not open the node."""


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """One cause, what it was read from, and what to do about it."""

    sentence: str
    evidence: tuple[str, ...] = ()
    fix: str | None = None


def only_pci(host: Host | None, gpus: str, library: str, there: tuple[str, ...]) -> Reason:
    """Say that only PCI shows the GPUs: nothing refused them, but other jobs may have them."""
    container = None if host is None else host.container
    said = f"nothing was read from {library}'s library"
    if container is not None and (container.kind or container.job):
        who = "container" if container.kind else f"job ({container.job})"
        said = f"this {who} may not have been given them"
    return Reason(sentence=f"Only PCI shows these {gpus}: {said}.", evidence=there)


def problem_of(snapshot: NodeSnapshot, source: str) -> Problem | None:
    """Find the problem that a source reported; None where it reported none."""
    return next((problem for problem in snapshot.problems if problem.source == source), None)


def as_evidence(problem: Problem | None) -> tuple[str, ...]:
    """Word a problem as evidence; () without one."""
    return () if problem is None else (f"{problem.source}: {problem.text}",)


def container_sign(host: Host | None) -> tuple[str, ...]:
    """Say what shows that this is a container; () outside one."""
    container = None if host is None else host.container
    if container is None or container.kind is None:
        return ()
    return (f"in a container ({container.kind}): {container.evidence}",)


def label(device: PciDevice) -> str:
    """Name a device by its address and model."""
    return f"{device.address} {device.device_name or device.vendor_name or ''}".rstrip()


def counted(devices: Sequence[PciDevice]) -> str:
    """Count the devices, with the verb: "1 GPU is"."""
    return "1 GPU is" if len(devices) == 1 else f"{len(devices)} GPUs are"

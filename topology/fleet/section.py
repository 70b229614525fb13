"""What the file of a node holds so that a fleet can compare it with others."""

from __future__ import annotations

from typing import Any

import msgspec

from ..model.severity import FigureBasis

EACH_GPU, WHOLE_NODE = "GPU", "node"
CATEGORIES = ("hardware", "wiring", "driver", "firmware", "settings", "environment")
"""Kinds of facts by which equal nodes are told from odd ones, each with a digest."""


class NodeOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """Which node wrote a file, as what started it there names it."""

    host: str
    """The node's name without its domain."""
    job: str | None = None
    """The number of the batch job; None outside of one."""
    engine: str | None = None
    """What started it: "Slurm", "PBS", "LSF", "Open MPI", ...; None where nothing says so."""
    rank: int | None = None
    """The engine's number of the process."""
    named: bool = False
    """Whether somebody chose the name, so that it holds for a recording too."""


class FleetFigure(msgspec.Struct, frozen=True, kw_only=True, rename={"over": "kind"}):
    """Measured figures of one kind on one node, as their middle and their worst."""

    key: str
    """Probe, quantity, variant and direction: "p2p write_bandwidth"."""
    over: str
    """The class of a pair, NV18 or PHB; EACH_GPU, or WHOLE_NODE for all together."""
    unit: str
    value: float
    """The median over the pairs or devices."""
    worst: float
    """The lowest; of times the highest."""
    at: str = ""
    """The pair or device that has it: "GPU3 to GPU5"; empty where there is one figure only."""
    count: int = 1
    healthy: float | None = None
    """What this hardware should give (see `basis`); None where no reference is known."""
    low: float | None = None
    """A figure below this is low; of times above."""
    basis: FigureBasis = FigureBasis.UNSAID
    """An estimate gives no verdict."""


class FleetSection(msgspec.Struct, frozen=True, kw_only=True):
    """The part `fleet` of a document gputop.check/1."""

    host: str
    """As in `NodeOrigin`."""
    job: str | None = None
    engine: str | None = None
    rank: int | None = None
    boot_id: str | None = None
    machine: str | None = None
    """A digest of the UUIDs and serials of its GPUs: one machine, whatever its name."""
    written_at: float | None = None
    """When the file was written, seconds since the epoch by the node's clock."""
    product: str = ""
    """"8 × NVIDIA H100 80GB HBM3"; nodes of one product are compared with each other."""
    facts: dict[str, dict[str, str]] = {}
    """Category -> what -> value. What could not be read is left out: it is unknown, not
    different."""
    sizes: dict[str, float] = {}
    """What -> GiB, where equal nodes differ a little by kernel and firmware; compared with a
    tolerance."""
    digests: dict[str, str] = {}
    """Category -> digest of its facts; equal digests mean equal facts."""
    figures: tuple[FleetFigure, ...] = ()
    simulated: bool = False
    """Whether the figures, or the node itself, belong to a demo."""
    redacted: bool = False
    """Whether its names are stand-ins."""
    snapshot: Any = None
    """The whole snapshot where --snapshot asked for it, else None: a record, or what is left of one
    that was redacted."""

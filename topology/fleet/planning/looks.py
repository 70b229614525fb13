"""One look at some nodes: what a file of `gputop probe net` says (schema gputop.net/1)."""

from __future__ import annotations

import math
from typing import Annotated, TypeAlias

import msgspec

from ...model.errors import GputopError
from ...model.severity import OpenWord
from ...model.snapshot import DataVerdict
from ..hosts import is_host

SCHEMA = "gputop.net/1"


class LookStatus(OpenWord):
    """How a look ended; absent: nobody came, or no file."""

    FINISHED = "finished"
    LATE = "timed out"
    ABSENT = "absent"
    FAILED = "failed"


FINISHED, LATE, ABSENT, FAILED = STATUSES = tuple(LookStatus)
WRONG_DATA, CPU = DataVerdict.WRONG_DATA, "cpu"
NO_FILE = "no file"
"""Why a pair of a plan is absent that left nothing in the folder."""
Round: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
"""The number of a round in a file."""
MOST_GBS = 1e6
"""A figure above is no bandwidth of this world."""


class NotCountedError(GputopError, ValueError):
    """A sound document that says nothing about two nodes that have names."""

    def __init__(self, kind: str, why: str) -> None:
        """`kind`: the value of a FileFault."""
        super().__init__(why)
        self.kind = kind


class NetFlow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One measured figure between the nodes of a look."""

    what: str = "send_recv"
    """send_recv, all_reduce, all_to_all."""
    rail: Annotated[int, msgspec.Meta(ge=0, le=255)] | None = None
    """The rail that carried it; None: all rails at once."""
    source: str | None = msgspec.field(default=None, name="from")
    target: str | None = msgspec.field(default=None, name="to")
    bytes: int | None = None
    gbs: float | None = None
    """GB/s (10^9 bytes a second), bus bandwidth; one direction where source and target are set."""
    transport: str | None = None
    verdict: DataVerdict | None = None
    """WRONG_DATA where the bytes did not arrive as they were sent; the figure then counts as 0."""


class NetLook(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement of two or more nodes, finished or not."""

    schema: str = SCHEMA
    hosts: tuple[str, ...]
    status: LookStatus
    why: str | None = None
    missing: tuple[str, ...] = ()
    """Those that never came."""
    results: tuple[NetFlow, ...] = ()
    run: str | None = None
    """The name of this run, which the files of all its nodes share."""
    device_kind: str | None = None
    """"cpu" in a self-test, which says nothing about a fleet."""
    round: Round | None = None
    """The round of the plan that asked for it; None: somebody measured it by himself."""
    taken_at: float | None = None
    """Seconds since 1970."""

    @property
    def finished(self) -> bool:
        """Whether it came to its end with figures."""
        return self.status == FINISHED and bool(self.results)


_DECODER = msgspec.json.Decoder(NetLook)


def look_from(data: bytes) -> NetLook:
    """Read one document; ValueError with a sentence for what cannot be believed."""
    try:
        look = _DECODER.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ValueError(f"no sound document {SCHEMA}: {error}"[:200]) from error
    if len(look.hosts) < 2 or len(set(look.hosts)) != len(look.hosts):
        raise ValueError("a look names two or more different hosts")
    if any(host.startswith("node ") for host in look.hosts):
        raise NotCountedError("unnamed", "a node never came, and nobody had named it with --hosts")
    if not all(map(is_host, look.hosts)):
        raise ValueError("a name in `hosts` is not a host name")
    if look.status not in STATUSES:
        raise ValueError(f"status {look.status[:40]!r} is none of {', '.join(STATUSES)}")
    known = {None, *look.hosts}
    for flow in look.results:
        _check(flow, known)
    if look.device_kind == CPU:
        why = "a self-test on the CPU says nothing about the network"
        raise NotCountedError("other-document", why)
    # Without --hosts, who never came has no name.
    return msgspec.structs.replace(
        look,
        missing=tuple(host for host in look.missing if host in known),
        results=tuple(map(_counted, look.results)),
    )


def _check(flow: NetFlow, known: set[str | None]) -> None:
    if not {flow.source, flow.target} <= known:
        raise ValueError("a figure is from or to a host that the file does not name")
    if flow.gbs is None or not math.isfinite(flow.gbs) or not 0 <= flow.gbs <= MOST_GBS:
        raise ValueError("a figure is not a number of GB/s")


def _counted(flow: NetFlow) -> NetFlow:
    return msgspec.structs.replace(flow, gbs=0.0) if flow.verdict == WRONG_DATA else flow

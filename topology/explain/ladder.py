"""The five questions about P2P of a pair, each answered separately.

Path: topology. Driver: its grant, a table look-up and no test. NCCL or RCCL: what the library will
use, predicted; assumed as long as nobody asked the runtime, as the library will. Data: a kernel's
store, read back by the owner. All-reduce: resident kernels that wait for each other, which can hang
where a copy passes.
"""

from __future__ import annotations

import msgspec

from ..expectation.collectives import group_of
from ..hardware.terms import terms_of
from ..hardware.vendors import AMD
from ..model import quantities
from ..model.machine import Gpu
from ..model.page import Basis
from ..model.severity import RungState
from ..model.snapshot import DataVerdict, Measurement
from ..model.units import sentence
from ..nccl.decide.steps import CAN_REACH
from ..node import Node
from ..wiring.paths import path_between
from ..wiring.relations import relation
from ..wiring.wires import Wire, WireKind
from .naming import name as gpu_name
from .nccl import pair_decision, refused_by_rule, why_no_p2p
from .pair import WORDS
from .pair_summary import relay_of

YES, LESS, ASSUMED = RungState.YES, RungState.LESS, RungState.ASSUMED
NO, OPEN = RungState.NO, RungState.OPEN


BAD_ENDS = (DataVerdict.WRONG_DATA, DataVerdict.FAILED, DataVerdict.TIMED_OUT)
PROBE = "p2p"


class Rung(msgspec.Struct, frozen=True, kw_only=True):
    """One question and its answer."""

    title: str
    state: RungState
    answer: str
    """A word or two."""
    why: str = ""
    """A sentence; "" unless the answer is no."""
    by_rule: bool = False
    """The no is the library's own default, or it relays this pair through another GPU: no fault."""


def ladder(node: Node, src: str, dst: str) -> tuple[Rung, ...]:
    """Return the five rungs of an ordered pair; () for a GPU and itself, or without two GPUs."""
    machine = node.snapshot.machine
    one, other = machine.gpu(src), machine.gpu(dst)
    if one is None or other is None or src == dst:
        return ()
    return (
        _could(node, one, other),
        _both(_grant(node, src, dst), _grant(node, dst, src)),
        _library(node, src, dst),
        _both(_bytes(node, src, dst), _bytes(node, dst, src)),
        _collective(node, src, dst),
    )


def _both(there: Rung, back: Rung) -> Rung:
    """Return the answer for the asked direction; a no in the other direction counts too."""
    if back.state != NO or there.state == NO:
        return there
    return msgspec.structs.replace(back, answer=f"back: {back.answer}")


def _could(node: Node, one: Gpu, other: Gpu) -> Rung:
    title = "path"
    if one.mig_enabled or other.mig_enabled:
        why = "MIG is on, and its instances get no P2P."
        return Rung(title=title, state=NO, answer="MIG is on", why=why)
    found = node.matrix.cell(one.address, other.address)
    letters = (found or relation(node.snapshot.machine, one.address, other.address)).code
    path = path_between(node.graph, one.address, other.address)
    if letters == "?":
        # A path may rest on what is assumed about a host, which answers nothing.
        return Rung(title=title, state=OPEN, answer="not known")
    if path is None:
        return Rung(title=title, state=OPEN, answer=letters)
    if path.kind is WireKind.NET:
        why = "Only a network interface joins the two."
        return Rung(title=title, state=NO, answer="network", why=why)
    down = path.kind is WireKind.NVSWITCH and _down(one, other)
    if down or any(map(_less, path.wires)):
        return Rung(title=title, state=LESS, answer=f"{letters}, fewer than there could be")
    return Rung(title=title, state=YES, answer=letters)


def _less(wire: Wire) -> bool:
    known = wire.count is not None and wire.count_max is not None
    return known and (wire.count or 0) < (wire.count_max or 0)


def _down(*gpus: Gpu) -> bool:
    """Whether a link is down that leads to one of several switches, nobody knows to which."""
    return any(link.active is False for gpu in gpus for link in gpu.nvlinks)


def _grant(node: Node, src: str, dst: str) -> Rung:
    title = "driver"
    pair = node.snapshot.machine.pair(src, dst)
    words = () if pair is None else (pair.p2p_read, pair.p2p_write)
    gpu = node.snapshot.machine.gpu(src)
    amd = gpu is not None and gpu.vendor == AMD.id
    said, runtime = ("the driver", "HIP") if amd else ("NVML", "CUDA")
    for word in words:
        if word not in (None, "ok"):
            why = WORDS.get(word or "", f"the driver says {word!r}")
            decision = pair_decision(node, src, dst)
            relay = None if decision is None else relay_of(node, decision)
            if relay is not None:
                library = terms_of(node.snapshot.machine.gpus).library
                why = (
                    f"{said} grants no direct P2P here. {library} asks hop by hop instead: "
                    f"{gpu_name(node, relay)} has P2P with both GPUs and passes the data on."
                )
                return Rung(title=title, state=NO, answer="not directly", why=why, by_rule=True)
            return Rung(title=title, state=NO, answer=word or "", why=f"{said}: {why}.")
    asked = _latest(node, quantities.CAN_ACCESS, src, dst)
    if asked is not None and asked.verdict == DataVerdict.NOT_GRANTED:
        why = f"{runtime} says that one cannot reach the other's memory"
        why += f", although {said} grants it." if "ok" in words else "."
        return Rung(title=title, state=NO, answer=f"not by {runtime}", why=why)
    if "ok" in words:
        return Rung(title=title, state=YES, answer=f"granted, says {said}")
    if asked is not None and asked.verdict == DataVerdict.GRANTED:
        return Rung(title=title, state=YES, answer=f"granted, says {runtime}")
    return Rung(title=title, state=OPEN, answer="not asked")


def _library(node: Node, src: str, dst: str) -> Rung:
    title = terms_of(node.snapshot.machine.gpus).library
    pair = pair_decision(node, src, dst)
    if pair is None:
        return Rung(title=title, state=OPEN, answer="not known")
    if pair.p2p:
        if any(step.question == CAN_REACH and step.basis == Basis.ASSUMED for step in pair.steps):
            runtime = terms_of(node.snapshot.machine.gpus).runtime
            answer = f"P2P, if {runtime} grants it: not asked"
            return Rung(title=title, state=ASSUMED, answer=answer)
        return Rung(title=title, state=YES, answer="P2P")
    answer = {"SHM": "shared memory", "NET": "network"}.get(pair.transport, "no transport")
    why = sentence(why_no_p2p(pair))
    return Rung(title=title, state=NO, answer=answer, why=why, by_rule=refused_by_rule(pair))


def _bytes(node: Node, src: str, dst: str) -> Rung:
    title = "data"
    wrong = next(
        (
            figure
            for figure in node.snapshot.measurements
            if (figure.src, figure.dst) == (src, dst)
            and figure.wrong
            and figure.probe == PROBE
            and not figure.on_cpu
        ),
        None,
    )
    if wrong is not None:
        why = f"The probe p2p found other bytes than were sent ({wrong.quantity})."
        return Rung(title=title, state=NO, answer="wrong bytes", why=why)
    latest = _latest(node, quantities.BYTES_ARRIVE, src, dst)
    if latest is None:
        return Rung(title=title, state=OPEN, answer="not tested yet")
    if latest.verdict == DataVerdict.ARRIVED:
        return Rung(title=title, state=YES, answer="yes")
    if latest.verdict == DataVerdict.NOT_GRANTED:
        return Rung(title=title, state=OPEN, answer="not granted")
    return Rung(title=title, state=NO, answer=latest.verdict or "failed", why=latest.why_none or "")


def _collective(node: Node, src: str, dst: str) -> Rung:
    title = "all-reduce"
    sent = _latest(node, quantities.SEND_RECEIVE, src, dst)
    if sent is not None and sent.verdict in BAD_ENDS:
        why = sent.why_none or "Send and receive between the two did not end well."
        return Rung(title=title, state=NO, answer=_spoken(sent.verdict), why=why)
    ran = [
        figure
        for figure in node.snapshot.measurements
        if figure.quantity == quantities.COLLECTIVE_FINISHES and not figure.on_cpu
    ]
    others = sent is None and any(
        figure.quantity == quantities.SEND_RECEIVE and figure.src and not figure.on_cpu
        for figure in node.snapshot.measurements
    )
    if not ran or others:
        # The last run used other GPUs.
        if _reduced(node, src, dst):
            return Rung(title=title, state=YES, answer="finishes")
        return Rung(title=title, state=OPEN, answer="not tested yet")
    verdict = ran[-1].verdict
    if verdict == DataVerdict.FINISHED:
        return Rung(title=title, state=YES, answer="finishes")
    if verdict is None:
        return Rung(title=title, state=OPEN, answer="not tested yet")
    why = ran[-1].why_none or "A collective over the GPUs that took part did not end well."
    return Rung(title=title, state=NO, answer=_spoken(verdict), why=why)


def _reduced(node: Node, *gpus: str) -> bool:
    """Whether an all-reduce of these GPUs was measured, and with the right data."""
    for figure in node.snapshot.measurements:
        if figure.quantity == quantities.ALL_REDUCE and figure.value and not figure.wrong:
            group = None if figure.on_cpu else group_of(node, figure)
            if group is not None and {*gpus} <= {gpu.address for gpu in group.gpus}:
                return True
    return False


def _spoken(verdict: str) -> str:
    return verdict.replace("-", " ")


def _latest(node: Node, quantity: str, src: str, dst: str) -> Measurement | None:
    found = [
        figure
        for figure in node.snapshot.measurements
        if figure.quantity == quantity
        and (figure.src, figure.dst) == (src, dst)
        and not figure.on_cpu
    ]
    return found[-1] if found else None

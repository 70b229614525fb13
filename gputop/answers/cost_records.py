"""What `gputop cost` answers, as records."""

from __future__ import annotations

import msgspec

from gputop.answers.question import Answer
from gputop.exits import ANSWERED, WARNINGS
from gputop.topology.cost.ranked import RankedLayout
from gputop.topology.cost.rooflines import Roofline
from gputop.topology.model.severity import FigureBasis


class CostPart(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of communication of a step, in seconds."""

    what: str
    """"tensor: all-reduce"."""
    wire: str
    """What carries it: the edge that binds it."""
    seconds: float
    exposed_s: float
    """Of them, what no computing hides."""
    bytes_sent: float
    """By one GPU."""


class CostLayout(msgspec.Struct, frozen=True, kw_only=True):
    """One layout; seconds of a step, bytes of the fullest GPU."""

    tp: int
    pp: int
    dp: int
    ep: int
    cp: int
    zero: int
    recompute: str
    micro: int
    accumulation: int
    tokens: int
    """Of a step, over all GPUs."""
    fits: bool | None
    needed_bytes: float
    states_bytes: float
    activations_bytes: float
    loss_bytes: float
    step_s: float | None
    """Null where it does not fit, or where a rate is not known."""
    tokens_per_s: float | None
    mfu: float | None
    """Model FLOP over the peak on paper, all scores counted, as papers print it."""
    products_s: float | None
    attention_s: float | None
    between_s: float | None
    optimizer_s: float | None
    bubble_s: float | None
    host_s: float | None
    """What the host needs to launch a step; it runs beside the GPU."""
    communication: tuple[CostPart, ...]
    why: str

    @property
    def ways(self) -> str:
        """Those of more than one, "tp=8 dp=2"."""
        ways = {name: getattr(self, name) for name in ("tp", "pp", "dp", "ep", "cp")}
        return " ".join(f"{name}={n}" for name, n in ways.items() if n > 1) or "one GPU"


class CostBound(msgspec.Struct, frozen=True, kw_only=True):
    """One bound of the roofline, on paper and by what healthy machines reach."""

    what: str
    unit: str
    paper: float | None
    here: float | None


class CostAnswer(Answer, frozen=True, kw_only=True, tag="gputop.cost/1"):
    """A model on some GPUs: its layouts, the fastest that fit first."""

    model: str
    model_source: str
    parameters: int
    active_parameters: int
    """Of one token."""
    flop_per_token: float
    """Forward and backward, causal."""
    gpu: str
    gpus: int
    memory_bytes: int | None
    sequence: int
    tflops: float | None
    """What a healthy GPU reaches in products."""
    sheet_tflops: float | None
    basis: FigureBasis
    """"predicted" where all rates are typical figures, "estimate" where one is not."""
    layouts: tuple[CostLayout, ...]
    rooflines: tuple[CostBound, ...]
    notes: tuple[str, ...]
    sources: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """1 where no layout fits, or no time is known."""
        return ANSWERED if any(one.step_s for one in self.layouts) else WARNINGS


def roofline_of(one: Roofline) -> CostBound:
    """The same, as a record of the document."""
    return CostBound(what=one.what, unit=one.unit, paper=one.paper, here=one.here)


def layout_of(one: RankedLayout, why: str) -> CostLayout:
    """The same, as a record of the document."""
    time, peak, plan, ways = one.time, one.peak, one.plan, one.layout
    parts = () if time is None else time.exposed
    return CostLayout(
        tp=ways.tp, pp=ways.pp, dp=ways.dp, ep=ways.ep, cp=ways.cp,
        zero=plan.zero, recompute=plan.recompute.value, micro=plan.micro,
        accumulation=plan.accumulation, tokens=one.tokens, fits=one.fits,
        needed_bytes=peak.needed, states_bytes=peak.states,
        activations_bytes=peak.activations, loss_bytes=peak.loss,
        step_s=None if time is None else time.step_s,
        tokens_per_s=None if time is None else one.tokens_per_s,
        mfu=one.used,
        products_s=None if time is None else time.products_s,
        attention_s=None if time is None else time.attention_s,
        between_s=None if time is None else time.between_s,
        optimizer_s=None if time is None else time.optimizer_s,
        bubble_s=None if time is None else time.bubble_s,
        host_s=None if time is None else time.host_s,
        communication=tuple(
            CostPart(
                what=part.what, wire=part.wire, seconds=part.seconds, exposed_s=part.exposed_s,
                bytes_sent=part.bytes_sent,
            )
            for part in parts
        ),
        why=why,
    )  # fmt: skip

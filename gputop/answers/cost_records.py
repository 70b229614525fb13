"""What `gputop cost` answers, as records."""

from __future__ import annotations

import msgspec

from gputop.answers.question import Answer
from gputop.exits import ANSWERED, WARNINGS
from gputop.topology.cost.calibration import Calibration
from gputop.topology.cost.ranked import RankedLayout
from gputop.topology.cost.rooflines import Roofline
from gputop.topology.cost.serving import Moved, Serving
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
    least_s: float | None
    most_s: float | None
    """Where healthy machines of this kind lie."""
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


class CostServing(msgspec.Struct, frozen=True, kw_only=True):
    """Serving on `tp` GPUs of one node; seconds, bytes of one GPU. Null where it does not fit."""

    tp: int
    weights_bytes: float
    kv_tokens: int
    """Whose keys and values fit beside the weights."""
    prefill_s: float | None
    """One prompt alone: the time to the first token."""
    decode_one_s: float | None
    """A token of one request alone."""
    requests: int
    """With a prompt each, at the same time; at most 256."""
    decode_s: float | None
    """A token of each of them."""
    wire_s: float
    """Of that, all-reduces."""
    wire: str
    tokens_per_s: float | None
    """Decoded, of all requests."""
    kv_bytes: float
    """Of one prompt, over all its GPUs."""
    kv_to_node_s: float | None
    """To another node, by the share of the NICs that these GPUs have."""
    kv_to_host_s: float | None
    """To the memory of the host."""


class CostCalibration(msgspec.Struct, frozen=True, kw_only=True):
    """What an observed step says."""

    layout: str
    observed_s: float
    predicted_s: float
    slower: float
    """How many times as long computing takes as on healthy GPUs, were it that alone."""
    host_slower: float | None
    """The same of the host's launches where they are taken for the reason; `slower` is 1 then."""
    wires_slower: float | None
    """The same of communication alone; null where that cannot explain it."""


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
    serving: tuple[CostServing, ...]
    """With --serve, in place of layouts."""
    kv_bytes_per_token: float
    calibration: CostCalibration | None
    """With --observed-step: what `layouts` are scaled by."""
    notes: tuple[str, ...]
    sources: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """1 where no layout fits, or no time is known."""
        timed = any(one.step_s for one in self.layouts)
        return ANSWERED if timed or any(one.decode_s for one in self.serving) else WARNINGS


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
        least_s=None if time is None else time.least_s,
        most_s=None if time is None else time.most_s,
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


def serving_of(one: Serving, cache: Moved) -> CostServing:
    """The same, as a record of the document."""
    return CostServing(
        tp=one.tp, weights_bytes=one.weights_bytes, kv_tokens=one.kv_tokens,
        prefill_s=one.prefill_s, decode_one_s=one.decode_one_s, requests=one.requests,
        decode_s=one.decode_s, wire_s=one.wire_s, wire=one.wire, tokens_per_s=one.tokens_per_s,
        kv_bytes=cache.bytes, kv_to_node_s=cache.over_network_s, kv_to_host_s=cache.to_host_s,
    )  # fmt: skip


def calibration_of(one: Calibration) -> CostCalibration:
    """The same, as a record of the document."""
    return CostCalibration(
        layout=one.layout.text, observed_s=one.observed_s, predicted_s=one.predicted_s,
        slower=one.slower, host_slower=one.host_slower, wires_slower=one.wires_slower,
    )  # fmt: skip

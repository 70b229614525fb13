"""What `gputop cost` answers, as records."""

from __future__ import annotations

import msgspec

from gputop.answers.question import Answer
from gputop.exits import ANSWERED, WARNINGS
from gputop.topology.cost.calibration import Calibration
from gputop.topology.cost.edges import LayoutEdge, LayoutEdges
from gputop.topology.cost.ranked import RankedLayout
from gputop.topology.cost.rooflines import Roofline
from gputop.topology.cost.serving import Serving
from gputop.topology.cost.step import Exposed
from gputop.topology.model.severity import FigureBasis


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
    interleave: int
    """Groups of layers that each stage of a pipeline has."""
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
    tflops: float | None
    """Of the model, causal: what each GPU reaches."""
    replica_tokens: float | None
    """Of one replica between two reductions; null without data parallelism."""
    hides_tokens: float | None
    """From so many on what a replica sends takes no longer than what it computes."""
    products_s: float | None
    attention_s: float | None
    between_s: float | None
    optimizer_s: float | None
    bubble_s: float | None
    host_s: float | None
    """What the host needs to launch a step; it runs beside the GPU."""
    communication: tuple[Exposed, ...]
    edge: LayoutEdge | None
    """Where the longest of it is bound; null where nothing is sent, or where that is not known."""
    why: str

    @property
    def ways(self) -> str:
        """Those of more than one, "tp=8 dp=2"."""
        ways = {name: getattr(self, name) for name in ("tp", "pp", "dp", "ep", "cp")}
        return " ".join(f"{name}={n}" for name, n in ways.items() if n > 1) or "one GPU"


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
    fits_from_gpus: int | None
    """Where no layout fits: how many GPUs like these would do; null where that is not known."""
    rooflines: tuple[Roofline, ...]
    serving: tuple[Serving, ...]
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


_TIMES = ("step_s", "least_s", "most_s", "products_s", "attention_s", "between_s", "optimizer_s",
          "bubble_s", "host_s")  # fmt: skip
"""What the document says of a step as its time says it; None where no time is known."""


def layout_of(one: RankedLayout, why: str, edges: LayoutEdges) -> CostLayout:
    """The same, as a record of the document."""
    time, peak, plan, ways = one.time, one.peak, one.plan, one.layout
    return CostLayout(
        tp=ways.tp, pp=ways.pp, dp=ways.dp, ep=ways.ep, cp=ways.cp,
        zero=plan.zero, recompute=plan.recompute.value, micro=plan.micro,
        accumulation=plan.accumulation, interleave=plan.interleave, tokens=one.tokens,
        fits=one.fits,
        needed_bytes=peak.needed, states_bytes=peak.states,
        activations_bytes=peak.activations, loss_bytes=peak.loss,
        **{name: getattr(time, name, None) for name in _TIMES},
        tokens_per_s=None if time is None else one.tokens_per_s,
        mfu=one.used,
        tflops=one.tflops, replica_tokens=one.replica_tokens, hides_tokens=one.hides_tokens,
        communication=() if time is None else time.exposed,
        edge=None if time is None else edges.of(one.layout, time),
        why=why,
    )  # fmt: skip


def calibration_of(one: Calibration) -> CostCalibration:
    """The same, as a record of the document."""
    return CostCalibration(
        layout=one.layout.text, observed_s=one.observed_s, predicted_s=one.predicted_s,
        slower=one.slower, host_slower=one.host_slower, wires_slower=one.wires_slower,
    )  # fmt: skip

"""Four numbers that are easily mixed up, in one line: data sheet, one way, realistic, measured.

"data sheet 900 both ways -> 450 one way -> about 396 realistic (88 %) -> 395.8 measured (88 %)"

Percentages refer to the one-way figure, or to the data sheet where that counts one way.
"""

from __future__ import annotations

import math

import msgspec

from ..hardware.specs import Sku
from ..model import quantities
from ..model.snapshot import Measurement, NodeSnapshot
from ..model.units import figure as three
from ..node import Node
from . import collectives, devices, pairs
from .judge import Judge
from .judgement import ESTIMATE, Band, percent
from .links import host_link, link_of_pair, of_one_model

ARROW = " -> "


class Number(msgspec.Struct, frozen=True, kw_only=True):
    """One of the four numbers."""

    value: float
    what: str
    """"data sheet, both ways", "one way", "realistic", "measured", ..."""
    source: str
    share: float | None = None
    """Share of the one-way figure, or of the data sheet where that counts one way."""
    text: str
    """The text of this number in the line."""


class FourNumbers(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of one figure; those that make no sense for it are None."""

    unit: str
    sheet: Number | None = None
    one_way: Number | None = None
    realistic: Number | None = None
    measured: Number | None = None

    @property
    def numbers(self) -> tuple[Number, ...]:
        """The numbers that exist, in order."""
        four = (self.sheet, self.one_way, self.realistic, self.measured)
        return tuple(number for number in four if number is not None)

    @property
    def line(self) -> str:
        """All numbers in one line."""
        return ARROW.join(number.text for number in self.numbers)


class _Peak(msgspec.Struct, frozen=True, kw_only=True):
    """The peak of the data sheet, GB/s or TFLOP/s."""

    one_way: float
    both: bool = True
    """Whether the data sheet adds both ways."""
    added: bool = False
    """Whether the figure adds both ways too."""
    word: str = ""
    source: str = ""


def four_numbers(
    snapshot: NodeSnapshot, figure: Measurement, judge: Judge | None = None
) -> FourNumbers | None:
    """The four numbers of one figure; None where no data sheet has a peak for its kind.

    `judge`: the judge of the same snapshot, to reuse its paths and predictions.
    """
    judge = judge or Judge(snapshot)
    if figure.on_cpu:
        return None
    peak = _peak(judge.node, figure)
    if peak is None:
        return None
    whole = peak.one_way * (2 if peak.added else 1)
    expected = judge.expected(figure)
    value = figure.value
    unit = figure.unit or ""
    return FourNumbers(
        unit=unit,
        sheet=_sheet(peak),
        one_way=_one_way(peak),
        realistic=None if expected.band is None else _realistic(expected.band, whole),
        measured=_measured(figure, value, whole) if value and 0 < value < math.inf else None,
    )


def _sheet(peak: _Peak) -> Number:
    value = peak.one_way * (2 if peak.both else 1)
    word = "both ways" if peak.both else peak.word
    return Number(
        value=value,
        what=f"data sheet, {word}" if word else "data sheet",
        source=peak.source,
        text=f"data sheet {_plain(value)} {word}".rstrip(),
    )


def _one_way(peak: _Peak) -> Number | None:
    if not peak.both or peak.added:
        return None
    return Number(
        value=peak.one_way,
        what="one way, payload",
        source=f"half of the data sheet's figure ({peak.source})",
        text=f"{_plain(peak.one_way)} one way",
    )


def _realistic(made: Band, whole: float) -> Number:
    share = made.healthy / whole
    text = f"about {three(made.healthy)} realistic ({percent(share)})"
    if made.basis == ESTIMATE:
        text = f"about {three(made.healthy)} by an estimate ({percent(share)})"
    if made.reach is not None:
        text += f", {three(made.reach)} with what is there"
    return Number(value=made.healthy, what="realistic", source=made.source, share=share, text=text)


def _measured(figure: Measurement, value: float, whole: float) -> Number:
    how = [text for text in (figure.engine, figure.method) if text]
    return Number(
        value=value,
        what=figure.basis,
        source=figure.source + (f" ({', '.join(how)})" if how else ""),
        share=value / whole,
        text=f"{value:.4g} {figure.basis} ({percent(value / whole)})",
    )


def _plain(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _peak(node: Node, figure: Measurement) -> _Peak | None:
    quantity = figure.quantity
    if quantity in pairs.QUANTITIES or quantity == quantities.CONCURRENT:
        return _pair_peak(node, figure)
    if quantity == quantities.CONCURRENT_TOTAL:
        mesh = pairs.hub_links(node, figure)
        if mesh is None or "staged" in (figure.engine or ""):
            return None
        return _Peak(one_way=sum(link.design_gbs for link in mesh[1]), source=_source(mesh[0]))
    if quantity in collectives.COLLECTIVES:
        return _collective_peak(node, figure)
    gpu = node.devices.gpu(figure.src)
    if quantity == quantities.TRAIN_STEP and gpu is None and node.machine.gpus:
        gpu = node.machine.gpus[0]  # per GPU, and a job's GPUs are of one model
    sku = node.devices.sku(gpu) if gpu is not None else None
    if gpu is None or sku is None or gpu.mig_enabled or gpu.partition is not None:
        return None
    if quantity in devices.HOST:
        link = host_link(node, gpu, sku, figure)
        if link is None:
            return None
        return _Peak(one_way=link.design_gbs, source=_source(sku))
    if quantity in devices.MEMORY:
        once = 0.5 if "once" in (figure.counted or "") else 1.0
        word = "of the memory bus" if once == 1.0 else "of the memory bus, halved as counted once"
        peak = sku.hbm_gbs
        if not peak:
            return None
        return _Peak(one_way=peak * once, both=False, word=word, source=_source(sku))
    return _compute_peak(figure, sku)


def _pair_peak(node: Node, figure: Measurement) -> _Peak | None:
    pair = of_one_model(node, figure.src, figure.dst)
    link = None if pair is None else link_of_pair(node, *pair)
    if pair is None or link is None or "staged" in (figure.engine or ""):
        return None
    added = pairs.QUANTITIES.get(figure.quantity, ("", 1.0))[1] == 2
    return _Peak(one_way=link.design_gbs, added=added, source=_source(pair[2]))


def _collective_peak(node: Node, figure: Measurement) -> _Peak | None:
    """The peak of what one GPU can send to all others of the group together."""
    group = collectives.group_of(node, figure) if node.machine.gpus else None
    if group is None:
        return None
    models = [node.devices.sku(gpu) for gpu in group.gpus]
    sku = models[0]
    if sku is None or any(model != sku for model in models):
        return None
    rate = collectives.send_gbs(node, group, sku)
    return None if rate is None else _Peak(one_way=rate, source=_source(sku))


def _compute_peak(figure: Measurement, sku: Sku) -> _Peak | None:
    if figure.quantity not in (quantities.GEMM, quantities.TRAIN_STEP) or figure.unit != "TFLOP/s":
        return None
    shape = devices.shape_of(figure)
    kind = "bf16" if figure.quantity == quantities.TRAIN_STEP else shape[0] if shape else ""
    peak = devices.peak_of(sku, kind)
    if not peak:
        return None
    return _Peak(one_way=peak, both=False, word=f"{kind} dense", source=_source(sku))


def _source(sku: Sku) -> str:
    return f"data sheet of {sku.name}: {sku.source}"

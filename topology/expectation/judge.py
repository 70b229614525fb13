"""Compares figures with what this device and this link should give."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from ..hardware.specs import GOOD, LOOK
from ..model import quantities
from ..model.machine import Gpu
from ..model.snapshot import Measurement, NodeSnapshot
from ..model.units import figure as three
from ..nccl.prediction import Prediction
from ..node import Node
from ..wiring.gpu_names import gpu_label
from . import collectives, devices, pairs, siblings
from .judgement import (
    ESTIMATE,
    HEALTHY,
    HIGH,
    LOW,
    NO_REFERENCE,
    TIMES,
    TOO_HIGH,
    Band,
    Expected,
    Judgement,
    percent,
    terms_of,
    too_high,
    unjudged,
)
from .variables import NVLS, VariableEffect, Variables

FAR = 0.5
"""Share of the curve below which a message under the plateau is low by itself."""

FAR_BELOW = 0.35
"""Share of an estimate that a link with four of sixteen lanes, or two generations less, gives."""

THROTTLES = {
    "hw-thermal": "slowed down by its temperature (hardware)",
    "sw-thermal": "slowed down by its temperature (driver)",
    "thermal": "slowed down by its temperature",
    "prochot": "slowed down by its temperature",
    "hw-power-brake": "slowed down by the server's power brake",
    "hw-slowdown": "slowed down by hardware",
    "application-clocks": "held at clocks that somebody set",
    "applications-clocks": "held at clocks that somebody set",
    "sync-boost": "held at the clocks of its sync boost group",
}
"""Idle and display clocks do not count, and neither does a power cap at the usual limit, which a
large GEMM always meets (Azure/azurehpc-health-checks takes it for normal)."""
POWER_CAP = "sw-power-cap"
LOWERED = 0.97
"""Share of the usual limit below which a power limit counts as lowered."""


def judge(
    snapshot: NodeSnapshot,
    figures: Sequence[Measurement],
    prediction: Prediction | None = None,
) -> tuple[Judgement, ...]:
    """Judge figures of a node, in their order.

    `prediction`: what the library does on the node as it is set up. Without it, one is made when
    the first figure of a collective needs it, which takes some tenths of a second.
    """
    return Judge(snapshot, prediction).judge(figures)


class Judge:
    """One node; keeps paths, relations and predictions between calls."""

    def __init__(
        self,
        snapshot: NodeSnapshot,
        prediction: Prediction | None = None,
        alike: Judge | None = None,
    ) -> None:
        """`prediction`: that of this snapshot, where somebody keeps it.

        `alike`: of the same machine under other variables, which has predictions of it.
        """
        self.node = Node(snapshot)
        known = None if alike is None else alike.variables
        self.variables: Variables = Variables(snapshot, prediction, known)

    def judge(self, figures: Sequence[Measurement]) -> tuple[Judgement, ...]:
        """Judge figures, in their order."""
        behind = siblings.behind(self.node, figures)
        expectations = [*map(self.expected, figures)]
        plateaus: dict[tuple[object, ...], bool] = {}
        for figure, expected in zip(figures, expectations, strict=True):
            if expected.plateau and figure.value is not None:
                low = _is_under(LOOK, figure, expected.band)
                plateaus[_curve(figure)] = plateaus.get(_curve(figure), False) or low
        found = []
        for index, (figure, expected) in enumerate(zip(figures, expectations, strict=True)):
            # A slow transport may leave no time for large messages; then a far too low figure is
            # low.
            far = _is_under(FAR, figure, expected.band)
            whole = expected.plateau or plateaus.get(_curve(figure), far)
            judgement = self._one(figure, expected, whole)
            if index in behind:
                note = "; ".join(filter(None, (judgement.note, behind[index])))
                judgement = msgspec.structs.replace(judgement, note=note)
                if judgement.verdict == HEALTHY and (figure.unit or "") not in TIMES:
                    # Good enough by the table, and yet its siblings show what it should be.
                    cause = "; ".join(expected.causes)
                    judgement = msgspec.structs.replace(
                        judgement, verdict=LOW, cause=cause, explained=bool(cause)
                    )
            found.append(judgement)
        return tuple(found)

    def expected(self, figure: Measurement) -> Expected:
        """The band of one figure, whatever its value."""
        if figure.on_cpu:
            return Expected(note="measured on the CPU, which says nothing about a GPU")
        if figure.quantity in pairs.OF_PAIRS:
            return pairs.expected(self.node, figure)
        if figure.quantity in devices.OF_DEVICES:
            return devices.expected(self.node, figure)
        if figure.quantity in collectives.COLLECTIVES:
            return collectives.expected(self.node, self.variables, figure)
        return Expected(note="no published figure is of this kind")

    def _one(self, figure: Measurement, expected: Expected, whole: bool) -> Judgement:
        if figure.value is None or not math.isfinite(figure.value):
            return unjudged(figure.why_none or "no figure")
        if figure.wrong:
            return unjudged("the data that arrived was wrong, so the speed means nothing")
        made = expected.band
        if made is None:
            return unjudged(expected.note)
        share = _share(figure.value, made)
        if share is None:
            return unjudged("a figure that is no positive number is none")
        part = percent(share)
        if made.basis == ESTIMATE:
            note = f"{part} of {three(made.healthy)} {made.unit}; "
            note += expected.note or "that is an estimate and gives no verdict"
            return self._by_estimate(figure, expected, made, share, note)
        if share > too_high(made.unit) and expected.plateau:
            note = f"{part} of the reference: {_why_high(figure.quantity)}"
            return Judgement(verdict=HIGH, band=made, share=share, note=note)
        verdict, cause, explained, note = HEALTHY, "", False, ""
        if LOOK <= share < GOOD:
            cause, note = "; ".join(expected.causes), f"look: {part} of the reference"
            explained = bool(cause)
            if explained and made.reach is not None and made.reach < GOOD * made.healthy:
                # What is known to hold it back accounts for it: no noise between two limits.
                verdict, note = LOW, f"{part} of the reference"
                cause, explained = self._cause(figure, expected, made)
        elif share < LOOK and not whole:
            verdict = NO_REFERENCE
            note = f"{part} at this size alone; the plateau from 256 MiB up decides"
        elif share < LOOK:
            cause, explained = self._cause(figure, expected, made)
            verdict, note = LOW, f"{part} of the reference"
        return Judgement(
            verdict=verdict, band=made, share=share, cause=cause, explained=explained, note=note
        )

    def _by_estimate(
        self, figure: Measurement, expected: Expected, made: Band, share: float, note: str
    ) -> Judgement:
        """No verdict, with the causes that are known; low where a variable is to blame.

        An estimate is not off by a factor of two, and the variable is the proof.
        """
        causes = list(expected.causes) if share < LOOK else []
        effect = None
        if share < LOOK and figure.quantity in collectives.COLLECTIVES:
            effect = self._effect(figure)
            causes += [] if effect is None else [effect.text]
        if effect is not None and share < FAR and not expected.note:
            cause, explained = self._cause(figure, expected, made)
            note = f"{percent(share)} of an estimate"
            return Judgement(
                verdict=LOW, band=made, share=share, cause=cause, explained=explained, note=note
            )
        cause, far = "; ".join(causes), share <= FAR_BELOW and expected.plateau
        return Judgement(
            verdict=NO_REFERENCE, band=made, share=share, cause=cause, note=note, far=far
        )

    def _cause(self, figure: Measurement, expected: Expected, made: Band) -> tuple[str, bool]:
        """Why a figure is low, and whether that accounts for it."""
        causes = [*expected.causes]
        explained = expected.settled
        if made.reach is not None and figure.value is not None and causes:
            explained = figure.value >= LOOK * made.reach
            rest = "" if explained else ", and this is lower still"
            causes[-1] += f": {three(made.reach)} {made.unit} is what that can give{rest}"
        if figure.quantity in collectives.COLLECTIVES:
            effect = self._effect(figure)
            if effect is not None:
                enough = effect.share is None or _share_of(figure, made) >= effect.share * FAR
                causes.insert(0, effect.text + ("" if enough else ", but this is lower still"))
                explained = explained or enough
            elif expected.algorithm == NVLS:
                causes += self._ring(figure, made)
        if figure.quantity in pairs.QUANTITIES and not explained:
            causes += filter(None, (pairs.hint(self.node, figure),))
        more = seen(self.node, figure)
        accounts = bool(more) and explains(figure)
        return "; ".join((*causes, *more)), explained or accounts

    def _ring(self, figure: Measurement, made: Band) -> list[str]:
        """Say that a figure is what Ring gives over the present links, where NVLS was expected."""
        group = collectives.group_of(self.node, figure)
        sku = self.node.devices.sku(group.gpus[0]) if group is not None else None
        if group is None or sku is None or figure.value is None:
            return []
        ring = collectives.ring_gbs(sku, figure, group.count)
        if ring is None:
            return []
        link = collectives.narrowest(self.node, group, sku)
        if made.reach is not None and link is not None:
            ring *= link.now_gbs / link.design_gbs
        if not ring or not LOOK <= figure.value / ring <= TOO_HIGH:
            return []
        return [
            f"about what Ring gives ({three(ring)} GB/s), and NVLS was expected: the log of "
            "NCCL_DEBUG=INFO says whether it came up"
        ]

    def _effect(self, figure: Measurement) -> VariableEffect | None:
        group = collectives.group_of(self.node, figure)
        if group is None:
            return None
        _, collective = collectives.COLLECTIVES[figure.quantity]
        values = self.variables.had(figure)
        return self.variables.effect(values, group.addresses, collective, figure.bytes_per_copy)


def _why_high(quantity: str) -> str:
    """The possible reasons for a figure above its band."""
    if quantity in collectives.COLLECTIVES:
        return "in-network reduction, or counted otherwise?"
    if quantity == quantities.GEMM:
        return "a cooler GPU, a newer library or another data distribution"
    return "what was counted, or does it fit a cache?"


def _share(value: float, made: Band) -> float | None:
    """Value / healthy; for a time healthy / value, so that less is poorer."""
    if made.healthy <= 0:
        return None  # a recording may name links without a rate
    if value <= 0:
        return 0.0 if value == 0 and not made.falling else None
    share = made.healthy / value if made.falling else value / made.healthy
    return share if math.isfinite(share) else None


def _share_of(figure: Measurement, made: Band) -> float:
    return (None if figure.value is None else _share(figure.value, made)) or 0.0


def _is_under(limit: float, figure: Measurement, made: Band | None) -> bool:
    if made is None or made.basis == ESTIMATE or figure.value is None:
        return False
    share = _share(figure.value, made)
    return share is not None and share < limit


def _curve(figure: Measurement) -> tuple[object, ...]:
    """The key that the sizes of one sweep share."""
    ranks = figure.details.get("ranks")
    return (figure.quantity, figure.src, figure.dst, figure.variant, str(ranks))


# Observed physical reasons for a low figure: limits, throttling, a shared GPU.
def seen(node: Node, figure: Measurement) -> tuple[str, ...]:
    """The reasons for this figure's GPUs, as clauses."""
    found: list[str] = []
    throttle = [*map(_plain, terms_of(figure, "throttle"))]
    gpus = [gpu for gpu in map(node.devices.gpu, (figure.src, figure.dst)) if gpu is not None]
    who = gpu_label(gpus[0]) if len(gpus) == 1 else "a GPU"
    found += dict.fromkeys(f"{who} was {THROTTLES[word]}" for word in throttle if word in THROTTLES)
    if figure.unit == "TFLOP/s" and (not throttle or POWER_CAP in throttle):
        found += [text for gpu in gpus or node.machine.gpus if (text := _limit(node, gpu))]
    if figure.details.get("shared"):
        found.append("the GPU was shared with another process")
    elif forced := figure.details.get("forced"):
        who = forced if isinstance(forced, str) else "a GPU was in use"
        found.append(f"the measurement was forced: {who}")
    return tuple(found)


def explains(figure: Measurement) -> bool:
    """Whether what was observed explains a low figure.

    Clocks decide matrix products and memory, but hardly the copies over a link.
    """
    if figure.details.get("shared") or figure.details.get("forced"):
        return True
    return figure.unit == "TFLOP/s" or figure.quantity.startswith("memory_")


def _plain(word: str) -> str:
    return word.lower().replace("_", "-").replace(" ", "-")


def _limit(node: Node, gpu: Gpu) -> str:
    """Say that a power limit was lowered; "" where it was not or is not known."""
    sku = node.devices.sku(gpu)
    usual = gpu.power_limit_default_watts
    if sku is not None and sku.tdp_watts and "tdp_w" not in sku.unconfirmed:
        usual = sku.tdp_watts
    limit = gpu.power_limit_watts
    if not limit or not usual or limit >= LOWERED * usual:
        return ""
    return f"{gpu_label(gpu)} has a power limit of {limit:.0f} W instead of {usual:.0f} W"

"""One step of a simulated probe."""

from __future__ import annotations

import msgspec

from gputop.probes.protocol.messages import MeasuredValue


class SimulatedStep(msgspec.Struct, frozen=True):
    """What the progress says meanwhile, and the figures that come at its end."""

    what: str
    figures: tuple[MeasuredValue, ...] = ()

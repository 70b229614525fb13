"""The last minutes of each GPU: bounded, on a fixed grid of time, of one node alone."""

from __future__ import annotations

from msgspec.structs import replace

from gputop.live.recent import KEPT, LINKS, UTILISATION, Recent
from gputop.topology.model.snapshot import NodeSnapshot
from tests.support.app import gpu, reading, snapshot_of

ONE = gpu(0)


def at(seconds: float, **figures: float | None) -> NodeSnapshot:
    given = snapshot_of((ONE,), (reading(ONE, **figures),))
    return replace(given, taken_at=1000.0 + seconds)


def test_the_means_change_once_a_span() -> None:
    recent = Recent()
    for second in range(60):
        recent.add(at(second, utilization_percent=float(second)))
    first = recent.bins(ONE.address, UTILISATION, 6, 60.0)
    assert first.values[-2:] == (34.5, 44.5)
    recent.add(at(60.5, utilization_percent=0.0))
    assert recent.bins(ONE.address, UTILISATION, 6, 60.0).values[-1] == 54.5
    assert recent.bins(ONE.address, LINKS, 6, 60.0).values == (None,) * 6


def test_it_keeps_so_many_readings_and_forgets_another_node() -> None:
    recent = Recent()
    for second in range(KEPT + 50):
        recent.add(at(second, utilization_percent=50.0))
    kept = recent.bins(ONE.address, UTILISATION, 4, 600.0).values
    assert kept[-1] == 50.0
    assert kept[0] is None
    assert recent.newest == 1000.0 + KEPT + 49
    recent.add(at(3, utilization_percent=1.0))  # the clock was set back
    assert recent.bins(ONE.address, UTILISATION, 1, 60.0).values == (1.0,)
    recent.add(replace(at(9), source=("demo x",), readings=replace(at(9).readings, gpus=())))
    assert recent.bins(ONE.address, UTILISATION, 2, 60.0).values == (None, None)

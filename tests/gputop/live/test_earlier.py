"""What a demo remembers of the minutes before it was opened, and the charts that show it."""

from __future__ import annotations

from gputop.live.recent import KEPT, LINKS, UTILISATION, Recent
from gputop.topology.recorded.demos import demo
from gputop.topology.recorded.feeds import DemoFeed

COLUMNS = 20


def test_charts_of_a_demo_are_full_from_the_start() -> None:
    feed, recent = DemoFeed("hgx-h100-8"), Recent()
    recent.add(feed.at(0))
    recent.add(feed.at(1))
    recent.add_earlier(feed.earlier())
    gpu = feed.at(1).machine.gpus[0].address
    for figure, seconds in ((UTILISATION, 60.0), (LINKS, 300.0)):
        assert None not in recent.bins(gpu, figure, COLUMNS, seconds).values
    assert recent.watched_seconds >= 300.0
    newest = [at for at, _ in recent.readings(gpu, UTILISATION)]
    assert newest == sorted(newest, reverse=True)
    assert newest[0] == feed.at(1).taken_at


def test_what_was_before_drops_out_of_a_full_ring_first() -> None:
    feed, recent = DemoFeed("hgx-h100-8"), Recent()
    first = feed.at(0)
    for tick in range(0, KEPT - 2):
        recent._keep(first.taken_at + tick, first.readings.gpus)
    recent.add_earlier(feed.earlier())
    gpu = first.machine.gpus[0].address
    known = recent.readings(gpu, UTILISATION)
    assert len(known) == KEPT
    assert known[0][0] == first.taken_at + KEPT - 3
    assert recent._oldest == feed.earlier()[-2][0]


def test_every_demo_remembers_each_gpu() -> None:
    for name in demo.names():
        feed = DemoFeed(name, interval=60.0)
        gpus = {gpu.address for gpu in feed.at(0).machine.gpus}
        past = feed.earlier()
        assert len(past) == 5, name
        assert all({reading.address for reading in found} == gpus for _, found in past), name
        assert DemoFeed(name, interval=3600.0).earlier() == ()

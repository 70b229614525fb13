"""Groups at the same time against two other counts: the library's tuning, and link arithmetic."""

from __future__ import annotations

import pytest

from gputop.topology.cost.over_hosts import calls_over_hosts
from gputop.topology.expectation.calls.kinds import CollectiveKind
from gputop.topology.expectation.calls.times import CallTime, TimesOfCalls
from gputop.topology.expectation.modelled import modelled
from gputop.topology.nccl.decide.predict import predict
from gputop.topology.nccl.settings import Settings
from tests.grid import turns
from tests.support.snapshots import demo_node, gpus_of

GIB = 1 << 30
OFF = 0.1
"""How far the rate of NICs that others reach is from the one that the library counts with."""


@pytest.mark.parametrize(
    ("demo", "hosts"),
    turns(["hgx-h100-8", "hgx-a100-8", "pcie-l40s-8", "mi300x-8"], [2, 4, 16]),
)
def test_a_rail_has_what_its_nic_carries(demo: str, hosts: int) -> None:
    node = demo_node(demo)
    rates = [(port.rate_gbit or 0) / 8 for nic in node.machine.rdma for port in nic.ports]
    whole, rail = calls_over_hosts(node, hosts, Settings({}))
    assert (whole.groups, whole.ranks) == (1, 8 * hosts)
    assert (rail.groups, rail.ranks) == (8, hosts)
    assert rail.links_gbs == pytest.approx(0.92 * sum(rates) / 8, rel=0.01)
    assert rail.library_gbs is not None
    low, high = rail.library_gbs
    assert low * (1 - OFF) < rail.links_gbs < high * (1 + OFF)
    assert whole.library_gbs is not None
    low, high = whole.library_gbs
    over_two = 1.25 if (demo, hosts) == ("hgx-h100-8", 2) else 1 + OFF  # NVLS trees of two
    assert low / over_two < whole.links_gbs < high * 1.2  # its rings lose by the number of hosts


def test_a_rack_of_nvlink_has_no_figure_of_its_nics() -> None:
    whole, rail = calls_over_hosts(demo_node("gb200-nvl72-tray"), 18, Settings({}))
    assert whole.library_gbs is None
    assert rail.library_gbs is None
    assert 617 < whole.links_gbs < 835


@pytest.mark.parametrize("demo", ["hgx-h100-8", "hgx-a100-8", "dgx-1v", "mi300x-8"])
def test_four_pairs_at_once_have_what_the_library_gives_one(demo: str) -> None:
    """Links of their own or of a switch: no pair takes anything from another."""
    node = demo_node(demo).decide()
    gpus = gpus_of(node)
    pairs = [gpus[at : at + 2] for at in range(0, 8, 2)]
    times = TimesOfCalls(node)
    for pair in pairs:
        alone = times.of(pair, CollectiveKind.ALL_REDUCE, GIB)
        beside = times.of(
            pair, CollectiveKind.ALL_REDUCE, GIB, [one for one in pairs if one != pair]
        )
        assert alone is not None
        assert beside is not None
        assert beside.us == pytest.approx(alone.us)
        figure = modelled(predict(node.snapshot, gpus=pair), GIB)
        assert figure is not None
        low, high = _range(beside)
        assert low * (1 - OFF) < figure < high * (1 + OFF), (demo, pair)


def _range(call: CallTime) -> tuple[float, float]:
    moved = call.busbw_gbs * call.us
    return moved / call.high_us, moved / call.low_us

"""What NICs carry: in words, with what their ports counted, and rails that differ."""

from __future__ import annotations

import pytest

from gputop.topology.explain.ports import counted, nic_now, odd_rails, ways
from gputop.topology.model.machine import Machine
from gputop.topology.model.readings import CounterKind, DeviceCounters, Readings
from gputop.topology.model.surroundings import RdmaDevice, RdmaPort
from gputop.topology.recorded.feeds import DemoFeed

ADDRESS = "0000:18:00.0"


def port(number: int, pace: tuple[float | None, float | None], **counts: int) -> DeviceCounters:
    return DeviceCounters(
        kind=CounterKind.RDMA,
        device="mlx5_0",
        port=number,
        address=ADDRESS,
        counts=tuple(counts.items()),
        tx_bytes_per_second=pace[0],
        rx_bytes_per_second=pace[1],
    )


def test_a_nic_adds_its_ports_and_names_errors_but_no_bytes() -> None:
    ports = (
        port(1, (20e9, 10e9), symbol_error=17, port_xmit_data=9000),
        port(2, (1e9, 0.0), symbol_error=1, out_of_sequence=1200),
    )
    readings = Readings(counters=ports)
    assert ways(readings.nic(ADDRESS)) == "↑21.0 ↓10.0"
    assert counted(readings, "mlx5_0") == ("18 symbol errors", "1,200 packets out of sequence")
    device = RdmaDevice(name="mlx5_0", ports=(RdmaPort(port=1, rate_gbit=400.0),))
    told = nic_now(Machine(rdma=(device,)), readings, "mlx5_0")
    assert told.startswith("↑21.0 ↓10.0 of 50.0 GB/s; 18 symbol errors, 1,200 packets")
    assert told.endswith("since the driver was loaded")


def test_what_nobody_knows_is_not_zero() -> None:
    assert Readings(counters=(port(1, (None, None)),)).nic("mlx5_0") == (None, None)
    assert Readings().nic("mlx5_0") == (None, None)
    assert ways((None, 1.0)) == ""
    assert nic_now(Machine(), Readings(), "mlx5_0") == ""
    assert ways((0.0, 0.0)) == "↑0 ↓0"


def test_rdma_goes_before_what_the_interface_counts() -> None:
    net = DeviceCounters(
        kind=CounterKind.NET,
        device="eth2",
        address=ADDRESS,
        tx_bytes_per_second=5.0,
        rx_bytes_per_second=5.0,
    )
    readings = Readings(counters=(port(1, (20e9, 10e9)), net))
    assert readings.nic(ADDRESS) == (20e9, 10e9)
    assert readings.nic("eth2") == (5.0, 5.0)


@pytest.mark.parametrize(
    ("totals", "told"),
    [
        ((46, 47, 44, 9.8), "NICs: mlx5_3 9.80 GB/s, the others 44.0 to 47.0"),
        ((46, 46, 46, 0), "NICs: mlx5_3 0 GB/s, the others 46.0"),
        ((46, 47, 44, 30), ""),
        ((46, 0, 0, 0), ""),
        ((46, 46, 0, 0), ""),
        ((0.4, 0.4, 0.4, 0.1), ""),
        ((46, 9), ""),
        ((46, 47, 44, None), ""),
    ],
)
def test_rails_that_differ(totals: tuple[float | None, ...], told: str) -> None:
    paces = [
        (f"mlx5_{at}", (None, None) if total is None else (total * 5e8, total * 5e8))
        for at, total in enumerate(totals)
    ]
    assert odd_rails(paces) == told


def test_nics_of_a_demo_carry_less_than_their_gpus_and_those_of_idle_ones_nothing() -> None:
    feed = DemoFeed("hgx-h100-8")
    assert feed.at(0).readings.nic("mlx5_0") == (None, None)
    for tick in range(1, 40):
        readings = feed.at(tick).readings
        for number, gpu in enumerate(readings.gpus):
            sent, received = readings.nic(f"mlx5_{number}")
            assert sent is not None
            assert received is not None
            assert sent <= (gpu.pcie_tx_bytes_per_second or 0.0)
            assert received <= (gpu.pcie_rx_bytes_per_second or 0.0)
            assert (sent > 0) == (number < 6)
    assert DemoFeed("sick-h100-8").at(5).readings.nic("mlx5_0") == (0.0, 0.0)

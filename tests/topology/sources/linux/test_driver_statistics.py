"""What drivers of network interfaces count, by a kernel that a test plays."""

from __future__ import annotations

import ctypes
import struct

import pytest

from gputop.topology.hardware.counters import CountedTrouble, meaning
from gputop.topology.hardware.driver_counters import every, wanted
from gputop.topology.model.readings import CounterKind
from gputop.topology.sources.linux.driver_statistics import (
    GSSET_INFO,
    GSTATS,
    GSTRINGS,
    NAME_BYTES,
    DriverStatistics,
    ask_kernel,
)

Buffer = ctypes.Array[ctypes.c_char]


class Kernel:
    """Answers as net/ethtool/ioctl.c does: it writes what the driver has, whoever asks."""

    def __init__(self, **interfaces: dict[str, int]) -> None:
        self.interfaces = interfaces
        self.asked: list[tuple[str, int]] = []

    def __call__(self, interface: str, buffer: Buffer) -> None:
        (command,) = struct.unpack_from("=I", buffer)
        self.asked.append((interface, command))
        if interface not in self.interfaces:
            raise OSError(95, "Operation not supported")
        counts = self.interfaces[interface]
        if command == GSSET_INFO:
            struct.pack_into("=IIQI", buffer, 0, command, 0, 2, len(counts))
        elif command == GSTRINGS:
            names = b"".join(name.encode().ljust(NAME_BYTES, b"\0") for name in counts)
            buffer[12 : 12 + len(names)] = [bytes((one,)) for one in names]
        elif command == GSTATS:
            values = struct.pack(f"={len(counts)}Q", *counts.values())
            struct.pack_into("=I", buffer, 4, len(counts))
            buffer[8 : 8 + len(values)] = [bytes((one,)) for one in values]


MLX5 = {"rx_packets": 5, "rx_prio3_pause": 7, "tx_prio3_pause": 0, "rx_pcs_symbol_err_phy": 2**40}
KNOWN = {name: value for name, value in MLX5.items() if name != "rx_packets"}


def test_statistics_with_a_meaning_are_read() -> None:
    kernel = Kernel(eth2=MLX5, eno1={"rx_packets": 1})
    statistics = DriverStatistics(kernel)
    assert statistics([("eth2", "mlx5_core"), ("eno1", "tg3")]) == {"eth2": KNOWN}
    assert {name for name, _ in kernel.asked} == {"eth2"}, "a driver without names is left alone"
    statistics([("eth2", "mlx5_core")])
    assert [command for _, command in kernel.asked].count(GSTRINGS) == 1


def test_more_queues_move_the_places() -> None:
    kernel = Kernel(eth2=MLX5)
    statistics = DriverStatistics(kernel)
    statistics([("eth2", "mlx5_core")])
    kernel.interfaces["eth2"] = {"rx0_packets": 1, **MLX5, "rx_prio3_pause": 9}
    assert statistics([("eth2", "mlx5_core")])["eth2"]["rx_prio3_pause"] == 9


def test_an_interface_without_statistics_is_left_out_and_one_that_went_too() -> None:
    kernel = Kernel(eth2=MLX5)
    statistics = DriverStatistics(kernel)
    both = [("eth2", "mlx5_core"), ("eth3", "mlx5_core")]
    assert list(statistics(both)) == ["eth2"]
    del kernel.interfaces["eth2"]
    assert statistics(both) == {}


def test_what_the_budget_leaves_out_is_as_before_and_comes_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = iter(range(100))
    monkeypatch.setattr("time.monotonic", lambda: float(next(clock)))
    kernel = Kernel(eth2=dict(MLX5), eth3=dict(MLX5))
    both = [("eth2", "mlx5_core"), ("eth3", "mlx5_core")]
    statistics = DriverStatistics(kernel, budget_seconds=1.5)
    assert list(statistics(both)) == ["eth2"]
    kernel.interfaces["eth2"]["rx_prio3_pause"] = 99
    found = statistics(both)
    assert set(found) == {"eth2", "eth3"}
    assert found["eth2"] == KNOWN, (
        "it was not asked again, and is not taken for one that began anew"
    )


def test_the_loopback_has_no_statistics() -> None:
    """The kernel of this machine, where it lets one ask."""
    with pytest.raises(OSError, match=r".+"):
        ask_kernel("lo", ctypes.create_string_buffer(struct.pack("=II", GSTATS, 0), 4096))


def test_every_name_means_one_thing() -> None:
    drivers = ("mlx5_core", "bnxt_en", "ionic", "ice", "ena")
    assert sum(len(wanted(driver)) for driver in drivers) == len(every())
    pauses = meaning(CounterKind.NET, "rx_prio3_pause")
    assert pauses is not None
    assert (pauses.trouble, pauses.news) == (CountedTrouble.CONGESTION, False)
    assert wanted("virtio_net") == {}
    assert all(len(name) < NAME_BYTES for name in every())

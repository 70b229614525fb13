"""How bandwidths of a System block become links, and what they tell of the GPUs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gputop.topology.logs.comparing.overlay import (
    PER_LINK,
    XGMI_GBS,
    architecture,
    capability,
    count_of,
    lanes,
    library_of,
)

UNHEARD = ("*",)


@pytest.mark.parametrize(
    ("gbs", "speed", "width"),
    [
        (48.0, "32.0 GT/s PCIe", 16), (24.0, "16.0 GT/s PCIe", 16), (12.0, "8.0 GT/s PCIe", 16),
        (6.0, "5.0 GT/s PCIe", 16), (3.0, "2.5 GT/s PCIe", 16), (96.0, "64.0 GT/s PCIe", 16),
        (1.5, "2.5 GT/s PCIe", 8), (0.8, "2.5 GT/s PCIe", 4), (0.4, "2.5 GT/s PCIe", 2),
        (0.2, "2.5 GT/s PCIe", 1), (0.0, "2.5 GT/s PCIe", 1), (9000.0, "64.0 GT/s PCIe", 16),
    ],
)  # fmt: skip
def test_a_bandwidth_is_a_speed_and_a_width(gbs: float, speed: str, width: int) -> None:
    assert lanes(gbs) == (speed, width)


def graph(gbs: float, pattern: int = 4) -> Any:
    return SimpleNamespace(bw_intra=gbs, pattern=pattern)


@pytest.mark.parametrize(
    ("nvlinks", "buses", "labels", "graphs", "found"),
    [
        ([40.0], [], ["P2P/CUMEM/read"], [], 80),
        ([370.8], [], ["P2P/CUMEM"], [], 90),
        ([370.8, 20.6, 0.0, -1.0], [], [], [], 90),
        ([40.0], [], [], [], 80),
        ([40.0], [], ["P2P/indirect/1"], [], 80),
        ([40.0], [], ["P2P/IPC", "NET/IB/0/read"], [], 70),
        ([721.8], [], [], [], 100),
        ([48.0], [], [], [], 86),
        ([60.0], [], [], [], 80),
        ([72.0], [], [], [], 60),
        ([90.0], [], [], [], 89),
        ([240.1], [], [], [], 89),
        ([0.5], [25.0], [], [], 90),
        ([], [], [], [graph(60.0)], 90), ([], [], [], [graph(50.0)], 90),
        ([], [], [], [graph(11.0)], 90), ([], [], [], [graph(24.0), graph(18.0)], 90),
        *(([], [], [], [graph(gbs)], 80) for gbs in (18.0, 10.0, 9.0, 7.0, 5.0, 4.0)),
        ([], [24.0, 12.0], [], [graph(18.0, pattern=3)], 89),
        ([], [24.1], [], [], 90),
        ([], [], [], [], 89),
    ],
)  # fmt: skip
def test_what_tells_the_generation_of_a_gpu(
    nvlinks: list[float], buses: list[float], labels: list[str], graphs: list[Any], found: int
) -> None:
    sm, why = capability(nvlinks, buses, labels, graphs)
    assert sm == found
    assert f"capability {sm / 10:.1f}" in why


def test_every_link_is_counted() -> None:
    for _, each in PER_LINK:
        assert [count_of(count * each, each) for count in (0, 1, 2, 18)] == [1, 1, 2, 18]
    for name, each in XGMI_GBS:
        assert architecture([each, 4 * each, 0.0])[:2] == (name, each)
    assert architecture([48.0 * 17])[:2] != ("gfx942", 48.0) or architecture([])[0] == "gfx942"
    for links in ([], [5.0], [0.0]):
        name, each, why = architecture(links)
        assert (name, each) == XGMI_GBS[0]
        assert why.startswith("the log does not tell")


@pytest.mark.parametrize(
    ("library", "version", "device", "rules"),
    [
        (None, None, "DEV/0", None), ("nccl", None, "DEV/0", None), ("rccl", None, "GPU/0", None),
        ("nccl", "2.28.9", "DEV/0", "nccl-2.28.9"),
    ],
)  # fmt: skip
def test_the_library_of_a_log(
    library: str | None, version: str | None, device: str, rules: str | None
) -> None:
    node = SimpleNamespace(name=device)
    system = SimpleNamespace(nodes=[node])
    log: Any = SimpleNamespace(
        versions=SimpleNamespace(library=library, version=version),
        communicators=[SimpleNamespace(systems=[system])],
    )
    assert library_of(log) == rules
    if library == "rccl":
        node.name = "DEV/0"
        assert str(library_of(log)).startswith("rccl-")

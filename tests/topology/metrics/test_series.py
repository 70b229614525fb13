"""The series of a node: what is there, what is left out, and how it is written."""

from __future__ import annotations

import math
import re
import time

import msgspec
import pytest

from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import diagnose
from gputop.topology.metrics.family import MetricFamily, MetricSample, SeriesKind, exposition
from gputop.topology.metrics.series import series
from gputop.topology.model.machine import Gpu
from gputop.topology.model.readings import GpuReading, NvLinkReading
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.node import Node
from gputop.topology.recorded.demos import demo
from tests.grid import share
from tests.support.rule_cases import base, cases, edited

H100 = base("demo hgx-h100-8")
LINE = re.compile(
    r'[a-zA-Z_:][a-zA-Z0-9_:]*(?:\{(?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\[\\n"])*",?)+\})? '
    r"(?:-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|NaN|[+-]Inf)"
)


def made(snapshot: NodeSnapshot) -> tuple[MetricFamily, ...]:
    case = Case(Node(snapshot).decide())
    return series(case, diagnose(case))


def values(families: tuple[MetricFamily, ...], name: str) -> dict[tuple[str, ...], float]:
    """The values of a family by the values of their labels, UUIDs left out."""
    return {
        tuple(value for label, value in one.labels if label != "UUID"): one.value
        for family in families
        if family.name == name
        for one in family.samples
    }


def with_links(snapshot: NodeSnapshot, *links: NvLinkReading) -> NodeSnapshot:
    first, *rest = snapshot.readings.gpus
    gpus = (msgspec.structs.replace(first, nvlinks=links), *rest)
    return msgspec.structs.replace(
        snapshot, readings=msgspec.structs.replace(snapshot.readings, gpus=gpus)
    )


@pytest.mark.parametrize("name", demo.names())
def test_every_demo_is_written_as_prometheus_reads_it(name: str) -> None:
    families = made(base(f"demo {name}"))
    text = exposition(families)
    assert text.endswith("\n")
    lines = [line for line in text.splitlines() if not line.startswith("# ")]
    assert not [line for line in lines if not LINE.fullmatch(line)]
    assert len({line.rpartition(" ")[0] for line in lines}) == len(lines), "a series stands twice"
    names = [family.name for family in families]
    assert len(set(names)) == len(names)
    own = [one for one in families if one.name.startswith("gputop_")]
    assert all(one.name.endswith("_total") == (one.kind is SeriesKind.COUNTER) for one in own)


@pytest.mark.parametrize("name", share([case.name for case in cases()][::7], 3))
def test_the_verdict_is_that_of_the_rules(name: str) -> None:
    case = next(one for one in cases() if one.name == name)
    found = values(made(case.snapshot), "gputop_verdict")
    assert [word for (word,), value in found.items() if value] == [
        diagnose(Case(Node(case.snapshot).decide())).verdict.value
    ]


def test_a_sick_gpu_is_named() -> None:
    families = made(base("demo sick-h100-8"))
    up = values(families, "gputop_gpu_links_up")
    expected = values(families, "gputop_gpu_links_expected")
    assert [gpu for gpu in up if up[gpu] < expected[gpu]] == [("3",)]
    assert set(values(families, "gputop_finding")) == {
        ("nvlink-down", "slow", "GPU3"), ("pcie-width", "slow", "GPU3"),
    }  # fmt: skip
    assert values(families, "gputop_pcie_lanes")["GPU3",] == 8


def test_what_nobody_read_has_no_sample() -> None:
    known = values(made(H100), "DCGM_FI_DEV_GPU_TEMP")
    assert len(known) == 8
    gone = edited(H100, [{"path": "readings.gpus[2].temperature_c", "remove": True, "why": "none"}])
    assert set(known) - set(values(made(gone), "DCGM_FI_DEV_GPU_TEMP")) == {("2",)}
    empty = made(NodeSnapshot(taken_at=1.0))
    assert not [one.name for one in empty if one.name.startswith("DCGM_")]
    assert values(empty, "gputop_verdict")["cannot tell",] == 1


def test_zero_is_a_value() -> None:
    idle = edited(H100, [{"path": "readings.gpus[0].utilization_percent", "value": 0.0}])
    assert values(made(idle), "DCGM_FI_DEV_GPU_UTIL")["0",] == 0


def test_errors_of_links_are_added_for_the_gpu_and_told_where_a_link_had_one() -> None:
    links = (
        NvLinkReading(link=0, replay_errors=0, recovery_errors=0),
        NvLinkReading(link=5, replay_errors=3, recovery_errors=2),
        NvLinkReading(link=6, replay_errors=4),
    )
    families = made(with_links(H100, *links))
    assert values(families, "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL") == {("0",): 7}
    assert values(families, "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL") == {("0",): 2}
    assert not values(families, "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL")
    assert values(families, "gputop_nvlink_errors_total") == {
        ("0", "5", "replay"): 3, ("0", "5", "recovery"): 2, ("0", "6", "replay"): 4,
    }  # fmt: skip


def test_a_lost_gpu_has_no_figures() -> None:
    lost = edited(H100, [{"path": "readings.gpus[3].lost", "value": True}])
    families = made(lost)
    assert values(families, "gputop_gpu_lost")["3",] == 1
    assert ("3",) not in values(families, "DCGM_FI_DEV_GPU_UTIL")


def test_hostile_names_stay_inside_their_quotes() -> None:
    evil = 'A"} 1\nevil_series 2\\'
    text = exposition(made(edited(H100, [{"path": "machine.gpus[*].name", "value": evil}])))
    lines = [line for line in text.splitlines() if not line.startswith("# ")]
    assert not [line for line in lines if not LINE.fullmatch(line)]
    assert not [line for line in lines if line.startswith("evil")]


@pytest.mark.parametrize(
    ("value", "written"),
    [(0.0, "0"), (3.0, "3"), (0.25, "0.25"), (1e300, "1e+300"), (math.nan, "NaN"),
     (math.inf, "+Inf"), (-math.inf, "-Inf"), (-2.0, "-2"), (2.0**53, "9007199254740992")],
)  # fmt: skip
def test_numbers(value: float, written: str) -> None:
    family = MetricFamily("a", SeriesKind.GAUGE, "b", (MetricSample((), value),))
    assert exposition((family,)).splitlines()[-1] == f"a {written}"


def large() -> NodeSnapshot:
    """128 GPUs in sixteen domains, each with 18 NVLinks whose counters were read."""
    links = tuple(
        NvLinkReading(link=link, replay_errors=0, recovery_errors=0, crc_errors=0)
        for link in range(18)
    )
    gpus: list[Gpu] = []
    readings: list[GpuReading] = []
    functions = list(H100.machine.pci)
    for domain in range(1, 17):
        for gpu, now in zip(H100.machine.gpus, H100.readings.gpus, strict=True):
            address = f"{domain:04x}{gpu.address[4:]}"
            place = {"address": address}
            index = len(gpus)
            gpus.append(
                msgspec.structs.replace(gpu, index=index, uuid=f"GPU-{index:032x}", **place)
            )
            readings.append(msgspec.structs.replace(now, nvlinks=links, **place))
            slot = H100.machine.pci_device(gpu.address)
            assert slot is not None
            functions.append(msgspec.structs.replace(slot, **place))
    machine = msgspec.structs.replace(
        H100.machine, gpus=tuple(gpus), pairs=(), pci=tuple(functions)
    )
    return msgspec.structs.replace(
        H100,
        machine=machine,
        readings=msgspec.structs.replace(H100.readings, gpus=tuple(readings)),
    )


def test_128_gpus_take_200_kb_and_a_fifth_of_a_second() -> None:
    case = Case(Node(large()).decide())
    found = diagnose(case)
    series(case, found)  # what an all-reduce costs is worked out once for a node
    took = []
    for _ in range(3):
        began = time.perf_counter()
        text = exposition(series(case, found))
        took.append(time.perf_counter() - began)
    assert len(text.encode()) < 200_000
    assert min(took) < 0.2
    assert text.count("DCGM_FI_DEV_GPU_UTIL{") == 128

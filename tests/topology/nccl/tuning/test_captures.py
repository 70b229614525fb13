from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from gputop.topology.nccl.prediction import Graphs, SearchGraph
from gputop.topology.nccl.settings import Settings
from gputop.topology.nccl.tuning.channels import coll_channels
from gputop.topology.nccl.tuning.choices import choose
from gputop.topology.nccl.tuning.inputs import TuningInput
from gputop.topology.nccl.tuning.model import tuning
from gputop.topology.nccl.tuning.version import ALGORITHMS, COLLECTIVES, PROTOCOLS

from ....support.nccl.logs import EMULATED, cases, lines_of

VENDORS = {"GenuineIntel": "intel", "AuthenticAMD": "amd"}
ARCHES = {"x86_64": "x86", "arm64": "arm"}

ROW = re.compile(r"INFO\s+(" + "|".join(COLLECTIVES) + r") \|(.*)")
PATTERN = re.compile(
    r"Pattern (\d), crossNic (\d), nChannels (\d+), bw ([\d.]+)/([\d.]+), "
    r"type (\w+)/(\w+), sameChannels (\d)"
)
CALL = re.compile(
    r"(\w+): (\d+) Bytes -> Algo (\w+) proto (\w+) channel\{Lo\.\.Hi\}=\{(\d+)\.\.(\d+)\}"
)
Table = dict[tuple[str, str, str], str]


def logged_table(lines: list[str]) -> Table:
    """The tuning table of a log: (collective, algorithm, protocol) -> "10.4/43.6"."""
    found: Table = {}
    block = -1
    for line in lines:
        block += "Algorithm   |" in line
        row = ROW.search(line)
        if row is None:
            continue
        for place, cell in enumerate(re.findall(r"([\d.]+/) *([\d.]+)", row[2])):
            algorithm = ALGORITHMS[3 * block + place // 3]
            found[row[1], algorithm, PROTOCOLS[place % 3]] = "".join(cell)
    return found


def predicted_table(comm: TuningInput) -> Table:
    """The same, computed."""
    return {
        (collective, algorithm, protocol): f"{us:.1f}/{gbs:.1f}"
        for collective, columns in tuning(comm).items()
        for algorithm, cells in columns.items()
        for protocol, (us, gbs) in cells.items()
    }


def number(lines: list[str], pattern: str) -> int:
    """The first number that a log prints in a place."""
    return next(int(found[1]) for line in lines if (found := re.search(pattern, line)))


def first_rank(lines: list[bytes]) -> list[str]:
    """What the process of rank 0 printed."""
    return [text for line in lines if "[0] NCCL" in (text := line.decode())]


def processor(case: dict[str, Any]) -> tuple[str, str]:
    """Architecture and vendor of a case's first CPU."""
    if case["topology"] is None or not EMULATED.is_dir():
        name = "x86_64" if "arm" not in case["case"] else "arm64"
        vendor = "AuthenticAMD" if "amd" in case["case"] else "GenuineIntel"
    else:
        cpu = ElementTree.parse(EMULATED / case["topology"]).getroot().find("cpu")
        assert cpu is not None
        name, vendor = cpu.get("arch", ""), cpu.get("vendor", "")
    return ARCHES.get(name, ""), VENDORS.get(vendor, "")


def emulated(case: dict[str, Any], lines: list[str]) -> TuningInput:
    """What NCCL had to tune for; the GPUs were H200 whatever the topology file says."""
    graphs = {name: SearchGraph(cross_nic=0, **found) for name, found in case["graphs"].items()}
    arch, vendor = processor(case)
    return TuningInput(
        graphs=Graphs(**graphs),
        ranks=4,
        nodes=number(lines, r"nNodes (\d+)"),
        min_sm=80,
        max_sm=80,
        device_sm=90,
        cpu_arch=arch,
        cpu_vendor=vendor,
        settings=Settings(case["env"]),
    )


@pytest.mark.parametrize(
    ("case", "log"),
    cases(),
    ids=lambda item: item.get("case", "?") if isinstance(item, dict) else "",
)
def test_emulated_runs(case: dict[str, Any], log: Path) -> None:
    lines = first_rank(gzip.decompress(log.read_bytes()).splitlines())
    comm = emulated(case, lines)
    channels = coll_channels(comm)
    assert channels == number(lines, r"(\d+) coll channels")
    assert predicted_table(comm) == logged_table(lines)
    table = tuning(comm)
    for wanted in case["choices"]:
        found = choose(comm, table, channels, wanted["collective"], wanted["bytes"])
        assert found is not None
        assert found.algorithm == wanted["algorithm"]
        assert found.protocol == wanted["protocol"]
        assert list(found.channels) == wanted["channels"]


@pytest.mark.parametrize("name", ["default", "cumem0", "lvlphb", "net", "p2pdis"])
def test_real_runs(name: str) -> None:
    lines = first_rank(lines_of(f"h200-{name}"))
    graphs = {}
    for line in lines:
        match = PATTERN.search(line)
        if match:
            graphs["ring" if match[1] == "4" else "tree"] = SearchGraph(
                pattern=int(match[1]),
                cross_nic=int(match[2]),
                channels=int(match[3]),
                bw_intra=float(match[4]),
                bw_inter=float(match[5]),
                type_intra=match[6],
                type_inter=match[7],
                same_channels=int(match[8]),
            )
    nodes = number(lines, r"nNodes (\d+)")
    comm = TuningInput(graphs=Graphs(**graphs), ranks=4, nodes=nodes, min_sm=90, max_sm=90)
    channels = coll_channels(comm)
    assert channels == number(lines, r"(\d+) coll channels")
    assert predicted_table(comm) == logged_table(lines)
    table = tuning(comm)
    calls = {match.groups() for line in lines if (match := CALL.search(line))}
    assert calls
    for collective, size, algorithm, protocol, first, last in calls:
        found = choose(comm, table, channels, collective, int(size))
        assert found is not None
        assert (found.algorithm, found.protocol) == (algorithm, protocol)
        assert found.channels == (int(first), int(last))

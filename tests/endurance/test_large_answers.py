"""Inputs that grow in one way: none may take a time that grows with its square.

Each took half a minute of CPU time or never ended where it did, and takes a second where it does
not, so the limit fails no slow machine.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from gputop.topology.model.machine import Machine
from gputop.topology.model.surroundings import RdmaDevice, RdmaPort
from gputop.topology.nccl.settings import Settings
from gputop.topology.nccl.xml.ports import network_ports
from tests.grid import share
from tests.harness.endurance.judging import Limits, breaches
from tests.harness.endurance.running import ended
from tests.support.cpu import within

LIMITS = Limits(cpu_seconds=20)
HEAD = """\
NCCL version 2.27.3 compiled with CUDA 12.9

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1     12500         8    100000    100000   RUNNING  MISMATCH

Warnings
========

#0-0 (0123456789abcdef) MISMATCH
  Communicator ranks have different AllReduce operation counts
"""


def many_ranks() -> str:
    """Ranks that a text names one by one."""
    ranks = (
        f"  Rank {rank} has launched up to operation {rank % 40} -- GPU {rank % 8} managed by "
        f"process {rank + 1} on node 10.0.{rank // 800}.{rank % 250}\n"
        for rank in range(40_000)
    )
    return HEAD + "".join(ranks)


def many_functions() -> str:
    """Collectives that a text names one by one."""
    return HEAD + "".join(
        f"  Communicator ranks have different F{number} operation counts\n"
        f"  31 ranks have launched up to operation {number}\n"
        for number in range(38_000)
    )


def functions_of_their_own() -> str:
    """Ranks of which each names another collective, as JSON."""
    ranks = [{"rank": rank, "collective_counts": {f"F{rank}": 1}} for rank in range(50_000)]
    communicator = {"hash": "0x1", "size": len(ranks), "ranks": ranks}
    return json.dumps({"nccl_version": "2.28.9", "communicators": [communicator]})


def blanks() -> str:
    """A line of blanks that ends in something else."""
    return f"{HEAD}{' ' * 300_000}x\n"


@pytest.mark.parametrize(
    "made", share([many_functions, many_ranks, functions_of_their_own, blanks], 4)
)
def test_a_large_answer_takes_no_minute(made: Callable[[], str], tmp_path: Path) -> None:
    path = tmp_path / "ras.txt"
    path.write_text(made())
    arguments = ["jobs", "--json", "--from", str(path)]
    answer = ended(arguments)
    assert breaches(arguments, answer, LIMITS) == []
    assert answer.code == 0


def _shared_ranks() -> dict[str, object]:
    """Groups whose members are one text, which a pickle holds once."""
    members = f"[{', '.join(map(str, range(10_000)))}]"
    groups = {f"group {number}": {"ranks": members} for number in range(4_000)}
    return {"version": "2.10", "pg_config": groups, "entries": []}


def _shared_entries() -> dict[str, object]:
    """Entries that are one and the same, with shapes that are one and the same."""
    shape = [*range(1, 17)]
    entry = {
        "process_group": ("0", "default_pg"), "collective_seq_id": 1, "state": "started",
        "profiling_name": "nccl:all_reduce", "input_sizes": [shape] * 64,
        "output_sizes": [shape] * 64, "input_dtypes": ["BFloat16"] * 64,
        "frames": [{"name": "f", "filename": "a.py", "line": 1}] * 32,
    }  # fmt: skip
    return {"version": "2.10", "pg_config": {}, "entries": [entry] * 20_000}


@pytest.mark.parametrize("made", [_shared_ranks, _shared_entries])
def test_what_a_dump_shares_is_understood_once(
    made: Callable[[], dict[str, object]], tmp_path: Path
) -> None:
    for rank in range(2):
        (tmp_path / f"dump_{rank}").write_bytes(pickle.dumps(made(), protocol=2))
    arguments = ["jobs", "--json", "--from", str(tmp_path)]
    answer = ended(arguments)
    assert breaches(arguments, answer, Limits(cpu_seconds=5)) == []
    assert answer.code in (0, 3)


def _equal_links() -> str:
    """A topology in which each GPU lists one NVLink 400 times."""
    links = '<nvlink target="0000:ff:ff.0" count="1" tclass="0x068000"/>' * 400
    gpus = "".join(
        f'<pci busid="0000:{16 + place:02x}:00.0" class="0x030200" vendor="0x10de" device="0x2330"'
        f' link_speed="32.0 GT/s PCIe" link_width="16"><gpu dev="{place}" sm="90" rank="{place}"'
        f' gdr="1">{links}</gpu></pci>'
        for place in range(8)
    )
    return (
        '<system version="1"><cpu numaid="0" affinity="ffffffff" arch="x86_64" '
        f'vendor="GenuineIntel" familyid="6" modelid="143">{gpus}</cpu></system>'
    )


@pytest.mark.parametrize("command", ["explain", "check --quick"])
def test_equal_links_of_a_topology_take_no_minute(command: str, tmp_path: Path) -> None:
    path = tmp_path / "system.xml"
    path.write_text(_equal_links())
    arguments = [*command.split(), "--from", str(path)]
    assert breaches(arguments, ended(arguments), Limits(cpu_seconds=8)) == []


def test_the_ports_of_thousands_of_adapters_are_counted_once(tmp_path: Path) -> None:
    adapters = tuple(
        RdmaDevice(
            name=f"mlx5_{place}",
            address=f"0000:{place // 256:02x}:{place % 256 // 8:02x}.{place % 8}",
            guid=f"0x{place:016x}",
            ports=(RdmaPort(port=1, state="ACTIVE", link_layer="InfiniBand", rate_gbit=400.0),),
        )
        for place in range(8_000)
    )
    settings = Settings({"NCCL_IB_MERGE_VFS": "0"})
    with within(3):
        found = network_ports(Machine(rdma=adapters), settings, gdr=True, rccl=False, notes=[])
    assert [port.port for port in found] == [*range(1, 9)] * 1000

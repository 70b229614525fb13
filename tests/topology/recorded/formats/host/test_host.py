"""What people paste about the host: lscpu, numactl."""

from __future__ import annotations

from pathlib import Path

from gputop.topology.model.machine import Host
from gputop.topology.recorded.load import load
from tests.support.places import RECORDINGS

FOLDER = RECORDINGS / "pasted"


def host(*names: str | Path) -> Host:
    found = load([str(FOLDER / name) for name in names]).snapshot.machine.host
    assert found is not None
    return found


def test_lscpu_of_a_machine() -> None:
    found = host("epyc-lscpu.txt")
    assert (found.cpu_vendor, found.cpu_family, found.cpu_model) == ("AuthenticAMD", 23, 49)
    assert found.cpu_model_name == "AMD EPYC 7542 32-Core Processor"
    assert (found.hypervisor, found.why("hypervisor")) == (None, None)  # bare metal
    assert [(s.socket, s.cores, s.threads) for s in found.sockets] == [(0, 32, 64), (1, 32, 64)]
    assert [(n.node, n.cpus) for n in found.numa] == [(0, "0-31,64-95"), (1, "32-63,96-127")]
    assert found.why("memory_bytes") == "not in lscpu"


def test_lscpu_of_a_guest() -> None:
    found = host("xeon-vm-lscpu.txt")
    assert (found.hypervisor, found.cpu_vendor) == ("Microsoft", "GenuineIntel")
    assert [node.cpus for node in found.numa] == ["0-47", "48-95"]


def test_lscpu_without_its_flags_does_not_say_bare_metal(tmp_path: Path) -> None:
    text = "\n".join(
        line
        for line in (FOLDER / "epyc-lscpu.txt").read_text().split("\n")
        if not line.startswith(("Flags", "Virtualization"))
    )
    path = tmp_path / "lscpu.txt"
    path.write_text(text)
    assert host(path).why("hypervisor") == "not in lscpu"


def test_nodes_of_numactl_complete_those_of_lscpu(tmp_path: Path) -> None:
    found = host("epyc-numactl.txt")
    assert [(n.node, n.cpus, n.memory_bytes, n.distances) for n in found.numa] == [
        (0, "0-3,8-11", 257655 << 20, (10, 32)),
        (1, "4-7,12-15", 258022 << 20, (32, 10)),
    ]
    assert found.memory_bytes == (257655 + 258022) << 20
    path = tmp_path / "both.txt"
    both = (FOLDER / "epyc-lscpu.txt").read_text() + (FOLDER / "epyc-numactl.txt").read_text()
    path.write_text(both)
    joined = host(path)
    assert [(n.cpus, n.distances) for n in joined.numa] == [
        ("0-31,64-95", (10, 32)),
        ("32-63,96-127", (32, 10)),
    ]

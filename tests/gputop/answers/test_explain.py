"""`gputop explain`: its document, its text, its exit codes, its speed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gputop.topology.explain.prediction import installed
from gputop.topology.model.surroundings import Software
from gputop.topology.recorded.feeds import DemoFeed
from tests.support.command import gputop
from tests.topology.nccl.made import SWITCH, cpu, gpu, nic, switch, system

HIDDEN = "fffffff:ff:ff.0"
NODE = system(
    *(
        cpu(
            numa,
            *(
                switch(
                    16 * (4 * numa + n) + 1,
                    gpu(16 * (4 * numa + n) + 2, 4 * numa + n, [(HIDDEN, 18, SWITCH)]),
                    nic(16 * (4 * numa + n) + 3, 4 * numa + n),
                )
                for n in range(4)
            ),
        )
        for numa in range(2)
    )
)


@pytest.fixture(scope="module")
def topology(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("xml") / "node.xml"
    path.write_text(NODE)
    return str(path)


def document(*arguments: str) -> dict[str, Any]:
    done = gputop("explain", "--json", *arguments)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_document(topology: str) -> None:
    found = document("--from", topology)
    assert found["schema"] == "gputop.explain/1"
    assert found["gputop"]
    assert found["source"] == ["node.xml"]
    assert found["library"] == {"name": "nccl", "version": "2.28.9"}
    assert found["environment"] == {}
    assert len(found["pairs"]) == 56
    first = found["pairs"][0]
    assert {key: first[key] for key in ("src", "dst", "path", "hops", "label", "via", "read")} == {
        "src": 0,
        "dst": 1,
        "path": "NVL",
        "hops": 2,
        "label": "P2P/CUMEM",
        "via": None,
        "read": 0,
    }
    assert first["src_bus_id"] == "0000:02:00.0"
    assert {"question", "answer", "because", "decides", "flag", "source", "basis"} == set(
        first["steps"][0]
    )
    view = found["views"][0]
    assert view["ranks"] == list(range(8))
    assert set(view["nets"][0]) >= {"rank", "net", "to", "from", "gdr_send", "gdr_recv", "pxn_rank"}
    assert view["local_nets"]["0"] == [0]
    ring = found["graphs"]["ring"]
    assert (ring["pattern"], ring["channels"], ring["bw_intra"]) == (4, 12, 30.0)
    assert [choice["bytes"] >> 20 for choice in found["choices"]] == [1, 4, 16, 64, 256, 1024]
    assert len(found["tuning"]["AllReduce"]["RING"]["LL128"]) == 2
    assert "the driver is assumed to grant peer access: it was not asked" in found["assumptions"]
    assert "baseline" not in found


def test_a_changed_variable_brings_the_baseline(topology: str) -> None:
    found = document("--from", topology, "--set", "NCCL_CUMEM_ENABLE=0", "--nodes", "2")
    assert found["environment"] == {"NCCL_CUMEM_ENABLE": "0"}
    assert {pair["label"] for pair in found["pairs"]} == {"P2P/IPC"}
    assert {pair["label"] for pair in found["baseline"]["pairs"]} == {"P2P/CUMEM"}
    assert found["baseline"]["environment"] == {}
    assert found["two_node"]["schema"] == "gputop.explain/1"
    assert found["two_node"]["graphs"]["ring"]["type_inter"] == "PIX"
    assert found["two_node"]["nodes"] == 2
    many = found["multi_node"]
    assert (many["hosts"], many["nodes"], many["ranks"]) == (2, 2, 16)
    assert many["graphs"] == found["two_node"]["graphs"]
    assert many["choices"] == found["two_node"]["choices"]


def test_one_pair_and_a_part_of_the_gpus(topology: str) -> None:
    found = document("1", "0000:02:00.0", "--from", topology)
    assert [(pair["src"], pair["dst"]) for pair in found["pairs"]] == [(1, 0)]
    part = document("--from", topology, "--gpus", "rank:5,0000:02:00.0")
    assert [pair["src_bus_id"] for pair in part["pairs"]] == ["0000:02:00.0", "0000:52:00.0"]
    assert part["views"][0]["ranks"] == [0, 1]


def test_the_callers_variables_do_not_count_for_a_file(topology: str) -> None:
    done = gputop("explain", "--json", "--from", topology, NCCL_P2P_DISABLE="1")
    assert json.loads(done.stdout)["environment"] == {}


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("0",), 64),
        (("0", "0"), 64),
        (("0", "99"), 64),
        (("0", "1", "--set", "NCCL P2P=1"), 64),
        (("--set", "NCCL_DEBUG"), 64),
        (("--nccl", "newest"), 64),
        (("--gpus", "9"), 64),
        (("--nodes", "0"), 64),
        (("--missing", "0:mlx5_0"), 64),
        (("--nodes", "3", "--missing", "mlx5_0"), 64),
        (("--nodes", "3", "--missing", "3:mlx5_0"), 64),
        (("--set", "CUDA_VISIBLE_DEVICES="), 3),
    ],
)
def test_refusals(topology: str, arguments: tuple[str, ...], code: int) -> None:
    done = gputop("explain", "--from", topology, *arguments)
    assert done.returncode == code, done
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


def test_no_gpu_is_3(tmp_path: Path) -> None:
    path = tmp_path / "empty.xml"
    path.write_text(system(cpu(0)))
    done = gputop("explain", "--from", str(path))
    assert done.returncode == 3


def test_the_text(topology: str) -> None:
    done = gputop("explain", "--from", topology)
    assert done.returncode == 0, done.stderr
    assert "P2P/CUMEM: 28 pairs" in done.stdout
    assert "Ring: 12 × 30 GB/s NVL" in done.stdout
    assert "Assumed:" in done.stdout
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    one = gputop("explain", "0", "5", "--from", topology)
    assert "▸ which P2P? P2P/CUMEM" in one.stdout
    assert "NCCL_P2P_LEVEL" in one.stdout


def test_seventy_two_gpus_in_one_domain(tmp_path: Path) -> None:
    path = tmp_path / "rack.xml"
    path.write_text(
        system(
            *(
                cpu(
                    n,
                    *(
                        gpu(36 * n + k, 36 * n + k, [(HIDDEN, 18, SWITCH)], sm=100)
                        for k in range(36)
                    ),
                )
                for n in range(2)
            )
        )
    )
    done = gputop("explain", "--json", "--from", str(path))
    assert len(json.loads(done.stdout)["pairs"]) == 72 * 71


def test_the_text_of_a_change_ends_with_before_and_after(topology: str) -> None:
    done = gputop("explain", "--from", topology, "--set", "NCCL_P2P_DISABLE=1")
    assert done.returncode == 0, done.stderr
    changes = done.stdout.partition("What changes with NCCL_P2P_DISABLE=1")[2]
    assert "28 of 28 pairs change" in changes
    assert "Predicted all-reduce" in changes
    assert changes.rstrip().endswith("export NCCL_P2P_DISABLE=1")
    assert all(len(line) <= 80 for line in done.stdout.splitlines())


def test_the_library_of_this_machine_is_named_of_a_live_node_alone() -> None:
    node = DemoFeed("hgx-h100-8", version="test").at(0)
    software = Software(nccl="2.30.7", nccl_path="/s/libnccl.so.2", torch="2.13.0")
    machine = msgspec.structs.replace(node.machine, software=software)
    live = msgspec.structs.replace(node, machine=machine, source=("live",))
    assert installed(live).startswith("here: NCCL 2.30.7 of /s/libnccl.so.2, beside torch 2.13.0;")
    assert installed(msgspec.structs.replace(live, source=("demo",))) == ""


def test_of_nics_at_one_distance_the_one_that_is_taken_is_named() -> None:
    shape = ("--demo", "gb200-nvl72-tray")
    steps = document(*shape)["views"][0]["steps"]["local_nets"]
    named = re.findall(r"^Rank \d+: nearest NIC (\S+),", gputop("explain", *shape).stdout, re.M)
    assert named == [step["answer"] for step in steps] == [f"mlx5_{rank}" for rank in range(4)]

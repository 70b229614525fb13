"""`gputop explain`: its document, its text, its exit codes, its speed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gputop.screens.pairs.answer import answer_lines
from gputop.topology.explain.prediction import library_line
from gputop.topology.flags.what_if.remedy import remedy
from gputop.topology.flags.what_if.study import Study
from gputop.topology.model.surroundings import Software
from gputop.topology.recorded.feeds import DemoFeed
from gputop.widgets.spans import text_of
from tests.support.app import demo_report
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


@pytest.mark.parametrize("words", [("GPU3",), ("3",), ("0000:4c:00.0",)])
def test_one_gpu_is_answered(words: tuple[str, ...]) -> None:
    done = gputop("explain", *words, "--demo", "sick-h100-8")
    assert done.stdout.startswith("GPU3 · 0000:4c:00.0\nIts PCIe link came up with 8 of 16 lanes.")
    for said in (
        "Which CPUs are near? NUMA node 0",
        "16 of 18, version 4.0",
        "mlx5_3",
        "explain 3 0",
    ):
        assert said in done.stdout
    pairs = document(*words, "--demo", "sick-h100-8")["pairs"]
    assert [(pair["src"], pair["dst"]) for pair in pairs] == [(3, n) for n in range(8) if n != 3]


@pytest.mark.parametrize("words", [("GPU0", "GPU5"), ("gpu0", "5"), ("GPU0-GPU5",)])
def test_a_gpu_is_called_as_on_screen(words: tuple[str, ...]) -> None:
    asked = ("--demo", "pcie-l40s-8")
    assert gputop("explain", *words, *asked).stdout == gputop("explain", "0", "5", *asked).stdout


def test_one_gpu_and_a_change_need_a_second() -> None:
    done = gputop("explain", "GPU3", "--set", "NCCL_ALGO=Ring", "--demo", "sick-h100-8")
    assert (done.returncode, "GPU3 is one GPU" in done.stderr) == (64, True)


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
    # The order in which they are named is that of the ranks.
    assert [pair["src_bus_id"] for pair in part["pairs"]] == ["0000:52:00.0", "0000:02:00.0"]
    assert sorted(part["views"][0]["ranks"]) == [0, 1]


def test_the_callers_variables_do_not_count_for_a_file(topology: str) -> None:
    done = gputop("explain", "--json", "--from", topology, NCCL_P2P_DISABLE="1")
    assert json.loads(done.stdout)["environment"] == {}


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
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


UNUSED = """\
Device: 0, NVIDIA A100-SXM4-80GB, pciBusID: 4f, pciDeviceID: 0, pciDomainID:0
Device: 1, NVIDIA A100-SXM4-80GB, pciBusID: 52, pciDeviceID: 0, pciDomainID:0
Device=0 CAN Access Peer Device=1
Device=1 CAN Access Peer Device=0
Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)
   D\\D     0      1
     0 1540.93  17.55
     1  18.17 1539.41
Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)
   D\\D     0      1
     0 1536.38  24.18
     1  22.50 1550.10
"""


NARROW = "".join(
    f"0{slot}:00.0 VGA compatible controller: NVIDIA Corporation AD102 [GeForce RTX 4090]\n"
    f"\tLnkCap:\tPort #0, Speed 16GT/s, Width x16\n\tLnkSta:\tSpeed 16GT/s, Width {width}\n"
    for slot, width in ((1, "x16"), (2, "x4 (downgraded)"))
)


def test_faults_of_the_files_stand_above_what_is_predicted(tmp_path: Path) -> None:
    path = tmp_path / "p2p.txt"
    path.write_text(UNUSED)
    said = gputop("explain", "0", "1", "--from", str(path)).stdout
    assert "slow" in said.splitlines()[0]
    above = " ".join(said.partition("GPU0 → GPU1")[0].split())
    assert "do not use NVLink" in above
    assert "nvidia-smi nvlink -s" in above
    path.write_text(NARROW)
    assert "Move the card to a slot with x16" in " ".join(
        gputop("explain", "0", "1", "--from", str(path)).stdout.split()
    )
    path.write_text("n1:7:9 [0] NCCL WARN Cuda failure 'out of memory'\n")
    done = gputop("explain", "--from", str(path))
    assert done.returncode == 3
    assert "`gputop check` finds ✗" in done.stderr


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


def test_the_text_of_a_change_begins_with_what_it_does(topology: str) -> None:
    done = gputop("explain", "--from", topology, "--set", "NCCL_P2P_DISABLE=1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("NCCL_P2P_DISABLE=1: P2P for 0 of 28 pairs (28 today)")
    head, _, rest = done.stdout.partition("What changes with NCCL_P2P_DISABLE=1")
    assert re.search(r"^All-reduce 1 GiB: .* → .* \((predicted|estimate)\)$", head, re.MULTILINE)
    changes, _, state = rest.partition("export NCCL_P2P_DISABLE=1\n")
    assert "28 of 28 pairs change" in changes
    assert "Predicted all-reduce" in changes
    assert state.startswith("\nNCCL 2.28.9, 8 GPUs")
    assert all(len(line) <= 80 for line in done.stdout.splitlines())


def test_the_library_of_this_machine_is_named_of_a_live_node_alone() -> None:
    node = DemoFeed("hgx-h100-8", version="test").at(0)
    software = Software(nccl="2.30.7", nccl_path="/s/libnccl.so.2", torch="2.13.0")
    machine = msgspec.structs.replace(node.machine, software=software)
    live = msgspec.structs.replace(node, machine=machine, source=("live",))
    said = (
        "Predictions follow NCCL 2.30.7, the one of this system (/s/libnccl.so.2); `gputop doctor`"
    )
    assert library_line(live).startswith(said)
    assert library_line(msgspec.structs.replace(live, source=("demo",))) == ""
    assert library_line(live, "2.21.5") == ""


def test_of_nics_at_one_distance_the_one_that_is_taken_is_named() -> None:
    shape = ("--demo", "gb200-nvl72-tray")
    steps = document(*shape)["views"][0]["steps"]["local_nets"]
    named = re.findall(r"^Rank \d+: nearest NIC (\S+),", gputop("explain", *shape).stdout, re.M)
    assert named == [step["answer"] for step in steps] == [f"mlx5_{rank}" for rank in range(4)]


@pytest.mark.parametrize(
    ("demo", "src", "dst"),
    [
        ("pcie-l40s-8", 0, 5),
        ("pcie-l40s-8", 0, 1),
        ("sick-h100-8", 0, 3),
        ("mi250x-8", 0, 7),
        ("dgx-1v", 0, 5),
    ],
)
def test_a_pair_begins_with_what_the_screen_pairs_says(demo: str, src: int, dst: int) -> None:
    report = demo_report(demo)
    ends = tuple(report.snapshot.machine.gpus[number].address for number in (src, dst))
    study = Study(report.snapshot, made=report.prediction)
    change = True, remedy(study, ends[0], ends[1])
    lines = answer_lines(report, (ends[0], ends[1]), None, change, 400)
    screen = {text.split(" ", 1)[0]: text for text in (text_of(line).strip() for line in lines)}
    printed = gputop("explain", str(src), str(dst), "--demo", demo).stdout
    head, _, steps = printed.replace("\n  ", " ").partition("\n\n")
    assert "same host?" in steps
    for line in head.splitlines()[1:]:
        name, _, said = line.partition(": ")
        shown = screen[name].removeprefix(name).strip()
        assert said.partition("; may be")[0].partition(" · ")[0] in shown, name
    route = screen["Route"].removeprefix("Route").strip()
    assert head.endswith(f"Route: {route}")


def test_a_pair_without_p2p_names_the_variable_and_how_many_pairs_it_gives_it() -> None:
    printed = gputop("explain", "0", "5", "--demo", "pcie-l40s-8").stdout.splitlines()
    assert printed[0] == "○ GPU0 → GPU5: NO P2P: shared memory in the host, by NCCL's rule"
    assert printed[2].startswith(
        "Change: NCCL_P2P_LEVEL=SYS → P2P for 24 more pairs; may be slower"
    )
    held = gputop(
        *("explain", "0", "3", "--demo", "sick-h100-8", "--set", "NCCL_P2P_DISABLE=1")
    ).stdout
    assert "Change: NCCL_P2P_DISABLE unset → P2P for 28 more pairs\n" in held


def test_a_version_without_rules_is_named_on_the_second_line() -> None:
    printed = gputop("explain", "--nccl", "9.9", "--demo", "pcie-l40s-8").stdout.splitlines()
    assert printed[:2] == [
        "NCCL 9.9, 8 GPUs",
        "no rules for NCCL 9.9: those of 2.32.3, the nearest older",
    ]
    short = gputop("explain", "--nccl", "2.21", "--demo", "pcie-l40s-8").stdout
    assert short.startswith("NCCL 2.21.5, 8 GPUs")
    assert "- 2.21 is taken for 2.21.5, the newest known of its line\n" in short
    both = gputop("explain", "--nccl", "2.21", "--against", "2.30", "--demo", "pcie-l40s-8").stdout
    assert "from NCCL 2.21.5 to 2.30.7" in both
    assert "2.30 is taken for 2.30.7" in both


def test_what_is_not_predicted_is_not_called_unchanged() -> None:
    printed = gputop("explain", "--set", "NCCL_DEBUG=INFO", "--demo", "pcie-l40s-8").stdout
    assert printed.startswith("NCCL_DEBUG: what it does is not predicted")
    assert "with and without it" not in printed

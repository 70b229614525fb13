"""`gputop fleet plan`: from an empty folder to a culprit, with formats, exit codes and refusals."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from gputop.exits import ANSWERED, CANNOT_TELL, FAILURES, USAGE, WARNINGS
from gputop.topology.fleet.planning.looks import NetLook
from tests.harness.fleet_plans.cluster import Cluster, cluster, faults
from tests.support.command import gputop_here


def keep(folder: Path, looks: Sequence[NetLook], start: int) -> None:
    for number, look in enumerate(looks, start):
        (folder / f"net-{number}.json").write_bytes(msgspec.json.encode(look))


def topology(folder: Path, made: Cluster) -> str:
    below = made.fabric.below(made.hosts)
    path = folder / "topology.txt"
    path.write_text("".join(
        f"{leaf}: {','.join(hosts)}\n" for leaf, hosts in below.items() if leaf.startswith("leaf")
    ))  # fmt: skip
    return str(path)


def test_rounds_lead_from_an_empty_folder_to_the_culprit(tmp_path: Path) -> None:
    made = cluster(64, 5)
    (fault,) = faults(made, "NIC")
    made.plant([fault])
    leaves = topology(tmp_path, made)
    results = tmp_path / "results"
    results.mkdir()
    done = 0
    for number in range(1, 6):
        answer = gputop_here(
            "fleet", "plan", str(results), "--topology", leaves, "--json",
        )  # fmt: skip
        document = json.loads(answer.stdout)
        assert document["schema"] == "gputop.fleet-plan/1"
        if answer.returncode != WARNINGS:
            break
        assert document["round"] == number
        (results / f"plan-{number}.json").write_text(answer.stdout)
        looks = [
            made.pair(pair["a"], pair["b"], number)
            for pair in document["pairs"]
            for _ in range(pair["looks"])
        ]
        keep(results, looks, done)
        done += len(looks)
    assert answer.returncode == FAILURES
    assert document["verdict"] == "found"
    (culprit,) = document["culprits"]
    assert (culprit["hosts"], culprit["rail"]) == ([fault.host], fault.rail)
    text = gputop_here("fleet", "plan", str(results), "--topology", leaves)
    assert f"✗ {fault.host}, rail {fault.rail}: its NIC, cable or switch port" in text.stdout
    script = gputop_here("fleet", "plan", str(results), "--format", "sbatch", "--topology", leaves)
    assert script.returncode == FAILURES
    assert "no round is left to run" in script.stderr


def test_a_clean_fleet_ends_with_zero(tmp_path: Path) -> None:
    made = cluster(64, 2)
    for number in range(1, 5):
        answer = gputop_here("fleet", "plan", str(tmp_path), "--nodes", "g[00000-00063]", "--json")
        if answer.returncode != WARNINGS:
            break
        pairs = json.loads(answer.stdout)["pairs"]
        looks = [made.pair(p["a"], p["b"], number) for p in pairs for _ in range(p["looks"])]
        keep(tmp_path, looks, number * 1000)
    assert answer.returncode == ANSWERED
    assert "no topology" in "".join(json.loads(answer.stdout)["assumptions"])


def test_the_first_round_says_what_it_costs(tmp_path: Path) -> None:
    answer = gputop_here(
        "fleet", "plan", str(tmp_path), "--nodes", "g[1-10000]", "--topology", "names/32",
    )  # fmt: skip
    assert answer.returncode == WARNINGS
    assert "5000 pairs of 10000 nodes" in answer.stdout
    assert "2 rounds and 400,000 node-seconds" in answer.stdout
    assert "every pair once would take 9,999 rounds" in answer.stdout
    assert "leaves are guessed" in answer.stdout


def test_hostfiles_and_scripts_are_written(tmp_path: Path) -> None:
    given = ("fleet", "plan", str(tmp_path), "--nodes", "g[1-4]")
    folder = tmp_path / "hosts"
    assert gputop_here(*given, "--format", "hostfile", "-o", str(folder)).returncode == WARNINGS
    assert len(list(folder.iterdir())) == 2
    listed = gputop_here(*given, "--format", "hostfile").stdout
    assert sorted(listed.replace("\n", ",").split(",")) == ["", "g1", "g2", "g3", "g4"]
    script = tmp_path / "round.sh"
    gputop_here(*given, "--format", "sbatch", "-o", str(script))
    assert script.read_text().startswith("#!/bin/bash\n")


def test_two_nodes_cannot_be_judged(tmp_path: Path) -> None:
    made = cluster(64, 2)
    keep(tmp_path, [made.pair("g00000", "g00001", 1)], 1)
    answer = gputop_here("fleet", "plan", str(tmp_path))
    assert answer.returncode == CANNOT_TELL
    assert "too few equals" in answer.stdout


@pytest.mark.parametrize(
    ("arguments", "said", "code"),
    [
        (("plan", "nowhere"), "nowhere", USAGE),
        (("plan", "."), "", WARNINGS),
        (("plan", ".", "--nodes", "g["), "--nodes", USAGE),
        (("plan", ".", "--nodes", "g1"), "fewer than two", USAGE),
        (("plan", ".", "--topology", "missing.conf"), "missing.conf", USAGE),
        (("plan", ".", "--topology", "odd.txt"), "line 1", CANNOT_TELL),
        (("plan", ".", "--topology", "names/0"), "at least 1 node", USAGE),
        (("plan", ".", "--topology", "names/000"), "at least 1 node", USAGE),
        (("plan", ".", "--topology", "names"), "names/32", CANNOT_TELL),
        (("plan", ".", "--json", "--format", "sbatch"), "not both", USAGE),
        (("plan", ".", "--seconds", "nan"), "numbers", USAGE),
        (("plan", ".", "-o", "no/where"), "not written", USAGE),
    ],
)
def test_what_cannot_be_planned_ends_in_one_line(
    tmp_path: Path, arguments: tuple[str, ...], said: str, code: int
) -> None:
    (tmp_path / "odd.txt").write_text("no topology at all\n")
    words = [str(tmp_path) if word == "." else word for word in arguments]
    words = [str(tmp_path / word) if word == "odd.txt" else word for word in words]
    if "--nodes" not in words:
        words += ["--nodes", "g[1-8]"]
    done = gputop_here("fleet", *words)
    assert done.returncode == code
    assert said in done.stderr
    if code != WARNINGS:
        assert len(done.stderr.strip().splitlines()) == 1

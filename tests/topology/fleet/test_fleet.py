from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from gputop.topology.fleet.draining import drains
from gputop.topology.fleet.finding import (
    COMPARED,
    GONE,
    HEALTHY,
    MISSING,
    NODE,
    ODD,
    PAIRS,
    SHARED,
    Scope,
    finding,
    state_of,
)
from gputop.topology.fleet.fleet import MOST_WORDS, Fleet, _short
from gputop.topology.fleet.merging.growing import Growing, read_fleet
from gputop.topology.fleet.since import changed
from gputop.topology.model.finding import JOB
from gputop.topology.model.severity import (
    BROKEN,
    CANNOT_TELL,
    NOTICE,
    SLOW,
    NodeState,
    Severity,
    Verdict,
)
from tests.harness.bench.fleet import misjudged
from tests.support.fleet_made import (
    NOW,
    calls_itself,
    hosts,
    node,
    other,
    packed,
    slower,
    write,
)
from tests.support.hostile_names import HOSTILE

EIGHT = [f"g{number}" for number in range(1, 9)]


def put(folder: Path, made: dict[str, Any], name: str = "", *, late: float = 0.1) -> Path:
    """Write a node's file; its time is `late` seconds behind what the node says."""
    fleet = made["fleet"]
    path = folder / (name or f"{fleet['host']}.json.gz")
    path.write_bytes(packed(made))
    os.utime(path, (fleet["written_at"], fleet["written_at"] + late))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Eight equal healthy nodes."""
    for host in EIGHT:
        put(tmp_path, node(host))
    return tmp_path


def read(folder: Path, expected: list[str] | None = None) -> Fleet:
    return read_fleet(str(folder), expected or (), now=NOW + 600)


def ids(fleet: Fleet, host: str) -> set[str]:
    return {item.id for item in fleet.by_host.get(host, ())}


def test_equal_healthy_nodes_are_one_line(folder: Path) -> None:
    fleet = read(folder, EIGHT)
    assert fleet.findings == ()
    assert (fleet.verdict, fleet.counts[HEALTHY]) == ("healthy", 8)
    (group,) = fleet.groups
    assert (group.folded, group.product) == ("g[1-8]", "8 × NVIDIA H100 80GB HBM3")
    assert drains(fleet, slight=True) == ()


def test_every_sick_node_is_named_and_no_healthy_one_accused(tmp_path: Path) -> None:
    sick = write(tmp_path, 120)
    fleet = read(tmp_path, hosts(120))
    assert len(set(sick.values())) == 10
    assert misjudged(fleet, sick) == ([], [])
    assert fleet.verdict == Verdict.BROKEN


def test_an_odd_node_is_named_with_what_most_have(folder: Path) -> None:
    put(folder, other(node("g3"), "settings", "power limit", "500 W"))
    put(folder, other(node("g4"), "driver", "driver", "550.54.15"))
    fleet = read(folder)
    power, driver = fleet.findings
    assert (power.folded, power.severity) == ("g3", SLOW)
    assert power.title == "power limit 500 W where 7 of 8 have 700 W"
    assert (driver.folded, driver.severity) == ("g4", NOTICE)
    assert (fleet.states["g3"], fleet.states["g4"]) == (ODD, HEALTHY)
    assert fleet.verdict == "slow"


def test_without_a_majority_nobody_is_odd(tmp_path: Path) -> None:
    for host in EIGHT:
        driver = "550.54.15" if host < "g5" else "580.95.05"
        put(tmp_path, other(node(host), "driver", "driver", driver))
    fleet = read(tmp_path)
    (found,) = fleet.findings
    assert (found.id, found.severity, found.folded) == ("driver-mixed", NOTICE, "g[1-8]")
    assert found.title.endswith("; no majority, so no node is called odd")
    assert fleet.verdict == "healthy"


@pytest.mark.parametrize(("facts", "others"), [("ab", 1), ("abc", 2)])
def test_facts_without_a_majority_are_counted(tmp_path: Path, facts: str, others: int) -> None:
    for host in EIGHT:
        made = node(host)
        for fact in facts:
            made = other(made, "settings", fact, "on" if host < "g5" else "off")
        put(tmp_path, made)
    (found,) = read(tmp_path).findings
    assert found.title.endswith(f"no node is called odd; other facts that differ: {others}")


def test_of_two_nodes_neither_is_odd(tmp_path: Path) -> None:
    put(tmp_path, node("g1"))
    put(tmp_path, other(node("g2"), "settings", "ECC", "off"))
    assert [item.id for item in read(tmp_path).findings] == ["settings-mixed"]


def test_what_was_not_read_differs_from_nothing(folder: Path) -> None:
    made = node("g3")
    del made["fleet"]["facts"]["settings"]["power limit"]
    put(folder, made)
    assert read(folder).findings == ()


def test_a_figure_stands_out_beyond_noise_alone(folder: Path) -> None:
    put(folder, slower(node("g3"), "gemm gemm bf16", 0.05))
    put(folder, slower(node("g4"), "p2p write_bandwidth", 0.3))
    put(folder, slower(node("g5"), "p2p latency", 0.5))
    fleet = read(folder)
    assert {item.folded for item in fleet.findings} == {"g4", "g5"}
    assert fleet.states["g4"] == ODD
    (copy,) = (item for item in fleet.findings if item.folded == "g4")
    assert "p2p write bandwidth over NV18" in copy.title
    assert "healthy 390 (typical)" in copy.title
    assert copy.evidence[0].what == "g4 GPU1 to GPU2"


@pytest.mark.parametrize(
    ("gib", "said"),
    [
        (2046.0, []),
        (1984.0, [("slow", "g5", "memory of the host 1984 GiB where 7 of 8 have 2048 GiB")]),
        (2304.0, [("notice", "g5", "memory of the host 2304 GiB where 7 of 8 have 2048 GiB")]),
    ],
)
def test_memory_of_the_host_has_a_tolerance(
    folder: Path, gib: float, said: list[tuple[str, str, str]]
) -> None:
    made = node("g5")
    made["fleet"]["sizes"] = {"memory of the host": gib}
    put(folder, made)
    found = read(folder)
    assert [(item.severity, item.folded, item.title) for item in found.findings] == said
    assert len(found.groups) == 1


def test_how_long_a_start_takes_makes_nobody_odd(folder: Path) -> None:
    for number, host in enumerate(EIGHT):
        made = node(host)
        seconds = 90.0 if number == 3 else 9.0 + number / 10
        made["fleet"]["figures"].append(
            {"key": "launch first_use", "kind": "GPU", "unit": "s", "value": 9.0, "worst": seconds}
        )
        put(folder, made)
    found = read(folder)
    assert found.findings == ()
    assert [strip.limit for strip in found.strips if strip.figure.unit == "s"] == [None]


def test_a_fleet_that_is_equally_slow_is_slow(tmp_path: Path) -> None:
    for host in EIGHT:
        made = calls_itself(node(host), "slow", "gemm-low", "GPUs compute at half their speed")
        put(tmp_path, slower(made, "gemm gemm bf16", 0.5))
    fleet = read(tmp_path)
    (found,) = fleet.findings
    assert (found.id, found.folded) == ("gemm-low", "g[1-8]")
    assert fleet.counts[NodeState.SLOW] == 8


def test_who_was_asked_for_and_wrote_nothing_is_missing(folder: Path) -> None:
    (folder / "g5.json.gz").write_bytes(packed(node("g5"))[:500])
    fleet = read(folder, [*EIGHT, "g9"])
    assert fleet.hosts_in(MISSING) == ("g5", "g9")
    assert fleet.verdict == Verdict.BROKEN
    (found,) = (item for item in fleet.findings if item.id == "missing")
    assert found.evidence[0].value == "g5.json.gz: it ends in the middle"
    # Nobody asked: then the rest of a file is all that is known of g5.
    fleet = read(folder)
    assert (fleet.states["g5"], fleet.verdict) == (NodeState.CANNOT_TELL, Verdict.CANNOT_TELL)


def test_an_old_file_is_no_answer(folder: Path) -> None:
    put(folder, node("g3", at=NOW - 86_400))
    fleet = read(folder)
    assert (ids(fleet, "g3"), fleet.states["g3"]) == ({"stale"}, NodeState.CANNOT_TELL)
    assert read(folder, EIGHT).states["g3"] == MISSING


def test_the_file_of_another_job_is_old(folder: Path) -> None:
    made = node("g3", at=NOW - 300)
    made["fleet"]["job"] = "40"
    put(folder, made)
    (found,) = read(folder).findings
    assert (found.id, found.folded) == ("stale", "g3")
    assert found.evidence[0].value == "of job 40, where 7 of 8 are of job 41"


def test_a_clock_that_is_off_is_named_and_nothing_more(folder: Path) -> None:
    put(folder, node("g3", at=NOW + 600), late=-600)
    fleet = read(folder)
    (found,) = fleet.findings
    assert (found.id, found.severity, found.folded) == ("clock-off", NOTICE, "g3")
    assert "10 min" in found.evidence[0].value
    assert fleet.verdict == "healthy"


def test_a_copied_folder_accuses_no_clock(folder: Path) -> None:
    for place, host in enumerate(EIGHT):
        os.utime(folder / f"{host}.json.gz", (NOW + 9e6, NOW + 9e6 + place * 100))
    assert read(folder).findings == ()


def test_the_newest_file_of_a_node_counts(folder: Path) -> None:
    old = calls_itself(node("g3", at=NOW - 100), "broken", "gpu-lost", "GPU3 is lost")
    put(folder, old, "again-g3.json.gz")
    fleet = read(folder)
    assert ids(fleet, "g3") == {"several-files"}
    assert fleet.verdict == "healthy"


def test_two_machines_of_one_name_contradict_each_other(folder: Path) -> None:
    made = node("g3")
    made["fleet"] |= {"machine": "0123456789abcdef", "boot_id": "fedcba9876543210"}
    put(folder, made, "other.json.gz")
    fleet = read(folder)
    assert (ids(fleet, "g3"), fleet.states["g3"]) == ({"two-machines"}, NodeState.CANNOT_TELL)


def test_a_gpu_that_is_lost_within_one_boot_makes_no_second_machine(folder: Path) -> None:
    made = node("g3", at=NOW - 100)
    assert made["fleet"]["boot_id"] is not None
    made["fleet"]["machine"] = "0123456789abcdef"
    put(folder, made, "other.json.gz")
    assert ids(read(folder), "g3") == {"several-files"}


def test_one_machine_of_two_names_is_said(folder: Path) -> None:
    made = node("g3")
    made["node"] = made["fleet"]["host"] = "g30"
    put(folder, made)
    (found,) = read(folder).findings
    assert (found.id, found.folded) == ("one-machine-twice", "g[3,30]")


def test_another_gputop_is_said(folder: Path) -> None:
    made = node("g3")
    made["gputop"] = "0.0.9"
    del made["fleet"]
    (folder / "g3.json.gz").unlink()
    (folder / "g3.json").write_bytes(__import__("json").dumps(made).encode())
    os.utime(folder / "g3.json", (made["taken_at"], made["taken_at"]))
    fleet = read(folder)
    assert ids(fleet, "g3") == {"mixed-gputop"}
    assert fleet.verdict == "healthy"


def test_nothing_is_never_healthy(tmp_path: Path) -> None:
    fleet = read(tmp_path)
    assert (fleet.verdict, fleet.hosts) == ("cannot tell", ())
    assert [item.id for item in fleet.findings] == ["no-nodes"]


def test_a_folder_grows(folder: Path) -> None:
    growing = Growing(str(folder), EIGHT)
    first = growing.look(now=NOW)
    assert growing.look(now=NOW) is first
    put(folder, calls_itself(node("g3"), "broken", "gpu-lost", "GPU3 is lost"))
    (folder / "g4.json.gz").unlink()
    second = growing.look(now=NOW)
    assert (second.states["g3"], second.states["g4"]) == (NodeState.BROKEN, MISSING)
    change = changed(first, second)
    assert [(item.host, item.now) for item in change.worse] == [("g3", BROKEN), ("g4", MISSING)]
    assert {item.id for item in change.came} == {"gpu-lost", "missing"}
    assert [item.host for item in changed(second, first).better] == ["g3", "g4"]


def test_lines_to_drain_nodes_are_safe_to_copy(folder: Path) -> None:
    for host in ("g3", "g4"):
        made = calls_itself(node(host), "broken", 'x"; reboot #$(id)', "GPU3 is lost")
        put(folder, made)
    (found,) = drains(read(folder, [*EIGHT]))
    assert found.command == (
        "scontrol update 'NodeName=g[3-4]' State=DRAIN Reason=\"gputop: x---reboot----id-\""
    )


@pytest.mark.parametrize("of_job", ["job", "ras-answer"])
def test_no_node_is_drained_for_a_job(folder: Path, of_job: str) -> None:
    put(folder, calls_itself(node("g3"), "broken", of_job, "rank 1 does not answer"))
    assert drains(read(folder, [*EIGHT])) == ()


def test_what_is_cut_is_as_long_as_the_longest_that_is_not() -> None:
    most = MOST_WORDS // 2
    for letters in (0, 1, most - 1, most):
        assert _short("a" * letters) == "a" * letters
    for letters in (most + 1, 10 * most):
        assert _short("a" * letters) == "a" * (most - 1) + "…"


@pytest.mark.parametrize("name", HOSTILE)
def test_no_line_drains_a_hostile_name(name: str) -> None:
    found = drains(Fleet("checks", [], expected=["g1", name, "g2"], now=NOW), slight=True)
    lines = {item.hosts: item.command for item in found}
    assert lines == {
        ("g1", "g2"): "scontrol update 'NodeName=g[1-2]' State=DRAIN Reason=\"gputop: no answer\"",
        (name,): "",
    }


def test_a_long_list_is_drained_in_several_lines() -> None:
    names = [f"n{number * 7919 % 99991:05d}x" for number in range(6000)]
    found = drains(Fleet("checks", [], expected=names, now=NOW))
    assert len(found) > 1
    assert max(len(item.command) for item in found) < 40_000
    assert sorted(host for item in found for host in item.hosts) == sorted(names)


@pytest.mark.parametrize(
    ("own", "severity", "scope", "state"),
    [
        ("healthy", None, NODE, HEALTHY),
        ("broken", None, NODE, NodeState.BROKEN),
        ("slow", None, NODE, NodeState.SLOW),
        ("cannot tell", None, NODE, NodeState.CANNOT_TELL),
        ("healthy", BROKEN, NODE, NodeState.BROKEN),
        ("cannot tell", BROKEN, COMPARED, NodeState.BROKEN),
        ("healthy", CANNOT_TELL, COMPARED, NodeState.CANNOT_TELL),
        ("healthy", SLOW, NODE, NodeState.SLOW),
        ("healthy", SLOW, PAIRS, NodeState.SLOW),
        ("healthy", SLOW, COMPARED, ODD),
        ("cannot tell", SLOW, COMPARED, ODD),
        ("slow", SLOW, COMPARED, NodeState.SLOW),
        ("healthy", NOTICE, COMPARED, HEALTHY),
        ("healthy", BROKEN, SHARED, HEALTHY),
    ],
)
def test_what_becomes_of_a_node(
    own: str, severity: Severity | None, scope: Scope, state: NodeState
) -> None:
    items = [] if severity is None else [finding("x", severity, scope, "x", ("g1",))]
    assert state_of(Verdict(own), items) is state


def test_a_node_that_is_gone_is_missing_whatever_else_is_found() -> None:
    items = [finding(name, BROKEN, NODE, "x", ("g1",)) for name in ("other", sorted(GONE)[0])]
    assert state_of(Verdict.BROKEN, items) is MISSING


@pytest.mark.parametrize(("count", "lines"), [(1, 1), (3, 3), (16, 16), (40, 17)])
def test_each_job_has_a_sentence_of_its_own(count: int, lines: int, tmp_path: Path) -> None:
    """Two nodes for each job; what one says is not told of the others."""
    for number in range(2 * count):
        said = f"job {number // 2}: rank 1 is late"
        put(tmp_path, calls_itself(node(f"g{number}"), "slow", JOB, said))
    found = [one for one in read(tmp_path).findings if one.id == JOB]
    assert len(found) == lines
    own = [one for one in found if "others differ" not in one.title]
    assert len(own) == lines - (count > lines)
    for one in own:
        first, second = (int(host[1:]) // 2 for host in one.hosts)
        assert first == second
        assert one.title == f"job {first}: rank 1 is late"

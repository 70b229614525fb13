from __future__ import annotations

import subprocess

import psutil
import pytest

from tests.harness.engines import judging
from tests.harness.engines.cases import DEAD, SLOW, Case
from tests.harness.engines.ending import ended

CASE = Case(name="two", kinds={"g3": DEAD, "g5": SLOW})


def answer(*findings: tuple[str, str]) -> dict[str, object]:
    return {"findings": [{"id": name, "hosts": hosts} for name, hosts in findings]}


def test_every_odd_node_named_and_no_other_one() -> None:
    found = answer(("missing", "g3"), ("nvlink-down", "g5"), ("wiring-differs", "g5"))
    assert list(judging.faults(CASE, found)) == []
    assert judging.words(found).startswith("missing g3; ")


@pytest.mark.parametrize(
    ("findings", "fault"),
    [
        ([("nvlink-down", "g5")], "g3 (dead) is not named by missing"),
        ([("missing", "g[3,5]")], "g5 (slow) is not named by nvlink-down"),
        ([("missing", "g3"), ("nvlink-down", "g[5-6]")], "g6 is accused of nvlink-down"),
    ],
)
def test_a_wrong_answer_is_found(findings: list[tuple[str, str]], fault: str) -> None:
    assert list(judging.faults(CASE, answer(*findings))) == [fault]


def test_orphans_end_too() -> None:
    with ended():
        started = subprocess.run(
            ["sh", "-c", "sleep 1000 >/dev/null & echo $!"],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        orphan = int(started.stdout)
        assert psutil.pid_exists(orphan)
    assert not psutil.pid_exists(orphan)

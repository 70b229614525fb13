"""`gputop explain --against`: its text, its document, what it refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gputop.exits import USAGE
from tests.support.command import gputop
from tests.topology.upgrade.made import sockets

VERSIONS = ("--nccl", "2.21.5", "--against", "2.30.7")


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The file of a machine with two sockets."""
    path = tmp_path_factory.mktemp("xml") / "node.xml"
    path.write_text(sockets())
    return str(path)


def test_two_lines_answer_and_a_rule_explains(node: str) -> None:
    done = gputop("explain", "--from", node, *VERSIONS)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("6 things change from NCCL 2.21.5 to 2.30.7 on node.xml")
    assert lines[2].startswith("All-reduce 1 GiB: ")
    assert "Since NCCL 2.26.2" in done.stdout
    assert "graph/topo.cc:ncclTopoGetInterCpuBw" in done.stdout


def test_the_document_holds_both_and_the_differences(node: str) -> None:
    done = gputop("explain", "--json", "--from", node, *VERSIONS)
    found: dict[str, Any] = json.loads(done.stdout)
    alone = [json.loads(gputop("explain", "--json", "--from", node, "--nccl", version).stdout)
             for version in ("2.21.5", "2.30.7")]  # fmt: skip
    for name in ("library", "pairs", "views", "choices", "tuning", "coll_channels"):
        assert found[name] == alone[0][name]
        assert found["against"][name] == alone[1][name]
    assert found["schema"] == "gputop.explain/1"
    changed = found["upgrade"]
    assert changed["changes"] == ["domains", "pairs", "ring", "tree", "channels", "algorithms"]
    assert changed["estimates"] == {}
    (pairs,) = (
        one for one in changed["differences"] if one["topic"] == "pairs" and one["decision"]
    )
    assert pairs["causes"][0]["source"] == "graph/topo.cc:ncclTopoGetInterCpuBw"
    assert "pairs[0-2].transport" in pairs["at"]


def test_one_pair_shows_both_ladders(node: str) -> None:
    done = gputop("explain", "0", "2", "--from", node, *VERSIONS)
    assert "for ranks 0 and 2" in done.stdout.splitlines()[0]
    assert done.stdout.count("rank 0 (0000:") == 2
    assert "1 pair (0-2): NET/IB over NET -> SHM/direct over SYS" in done.stdout


def test_the_same_version_changes_nothing(node: str) -> None:
    done = gputop("explain", "--from", node, "--nccl", "2.30.7", "--against", "2.30.7")
    assert done.stdout.startswith("Nothing changes from NCCL 2.30.7 to 2.30.7")
    assert "with both (estimate)" in done.stdout.splitlines()[1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--nccl", "nccl-2.21.5", "--against", "rccl-2.26.6"), "only versions of one library"),
        (("--against", "newest"), "is no version"),
        (("--against", "2.30.7", "--nodes", "2", "--missing", "0:mlx5_0"), "equal hosts"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: tuple[str, ...], words: str) -> None:
    done = gputop("explain", "--demo", "hgx-h100-8", *arguments)
    assert done.returncode == USAGE
    assert words in done.stderr

"""The index of a GID against those that show_gids lists."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.rules.network.rdma import GIDS
from gputop.topology.node import Node
from gputop.topology.recorded.load import load

HEAD = "DEV\tPORT\tINDEX\tGID\tIPv4\tVER\tDEV\n"
LOCAL = "mlx5_0\t1\t0\tfe80:0000:0000:0000:92e3:17ff:fe4d:0001\t\tv1\tens1\n"
OLD = "mlx5_0\t1\t2\t0000:0000:0000:0000:0000:ffff:0a3d:0d29\t10.61.13.41\tv1\tens1\n"
GOOD = "mlx5_0\t1\t3\t0000:0000:0000:0000:0000:ffff:0a3d:0d29\t10.61.13.41\tv2\tens1\n"


@pytest.mark.parametrize(
    ("lines", "value", "said"),
    [
        (LOCAL + OLD + GOOD, "3", None),
        (LOCAL + OLD + GOOD, "-1", None),
        (LOCAL + OLD + GOOD, "2", "v1, 0000"),
        (LOCAL + OLD + GOOD, "5", "no such index"),
        (LOCAL + OLD, "2", None),
        (GOOD, "0", "no such index in the list; v2 with an address: 3"),
    ],
    ids=["fits", "looked for", "v1", "missing", "nothing better", "empty"],
)
def test_an_index_is_held_against_the_list(
    tmp_path: Path, lines: str, value: str, said: str | None
) -> None:
    file = tmp_path / "paste.txt"
    file.write_text(f"{HEAD}{lines}n_gids_found=3\n\nNCCL_IB_GID_INDEX={value}\n")
    found = GIDS.answer(Case(Node(load([str(file)]).snapshot)))
    assert found is not None
    values = [evidence.value for finding in found for evidence in finding.evidence[1:]]
    assert [said in value for value in values if said is not None] == [True] * (said is not None)


def test_without_a_list_nothing_is_known(tmp_path: Path) -> None:
    file = tmp_path / "env.txt"
    file.write_text("NCCL_IB_GID_INDEX=9\n")
    assert GIDS.answer(Case(Node(load([str(file)]).snapshot))) is None

"""Earlier readings of a node: --since, two --from of one node, and what does not fit together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from gputop.checking.node import examined, reference
from gputop.exits import CANNOT_TELL, USAGE, Exit
from gputop.topology.model.snapshot import NodeSnapshot

from ...support.checked import saved
from ...support.rule_cases import base, edited

LIVE = base("hgx-h200-4gpu-live")
HOUR_SECONDS = 3600.0


def moment(seconds: float, **changes: Any) -> NodeSnapshot:
    """The node so much later, with this many PCIe replays on the first GPU."""
    edits = [{"path": "readings.gpus[0].pcie_replays", "value": changes.get("replays", 0)}]
    edits += [{"path": path, "value": value} for path, value in changes.get("edits", ())]
    return msgspec.structs.replace(edited(LIVE, edits), taken_at=LIVE.taken_at + seconds)


def replays(snapshot: NodeSnapshot | None) -> int | None:
    return None if snapshot is None else snapshot.readings.gpus[0].pcie_replays


def test_an_earlier_snapshot_is_the_earlier_reading(tmp_path: Path) -> None:
    now = saved(moment(HOUR_SECONDS, replays=9), tmp_path / "now.json")
    before = saved(moment(0, replays=4), tmp_path / "before.json")
    found = examined((now,), None, before)
    assert (replays(found.node), replays(found.earlier)) == (9, 4)


def test_two_moments_of_one_node_in_any_order(tmp_path: Path) -> None:
    now = saved(moment(HOUR_SECONDS, replays=9), tmp_path / "b.json")
    between = saved(moment(60, replays=5), tmp_path / "c.json")
    before = saved(moment(0, replays=4), tmp_path / "a.json")
    for order in ((now, before), (before, now), (between, now, before)):
        found = examined(order, None, None)
        assert (replays(found.node), replays(found.earlier)) == (9, 4)
        assert found.node.taken_at == LIVE.taken_at + HOUR_SECONDS


def test_a_gpu_that_was_lost_in_between_is_missed(tmp_path: Path) -> None:
    whole = moment(0)
    fewer = edited(moment(HOUR_SECONDS), [{"path": "machine.gpus[2]", "remove": True}])
    found = examined(
        (saved(fewer, tmp_path / "b.json"), saved(whole, tmp_path / "a.json")), None, None
    )
    assert found.earlier is not None
    assert (len(found.earlier.machine.gpus), len(found.node.machine.gpus)) == (4, 3)


def test_two_nodes_are_no_two_moments(tmp_path: Path) -> None:
    one = saved(moment(0), tmp_path / "a.json")
    other = saved(base("demo pcie-l40s-8"), tmp_path / "b.json")
    assert examined((one, other), None, None).earlier is None
    again = saved(moment(0), tmp_path / "c.json")
    assert examined((one, again), None, None).earlier is None


def test_a_reboot_between_sets_counters_back(tmp_path: Path) -> None:
    now = saved(moment(HOUR_SECONDS, replays=9), tmp_path / "now.json")
    before = saved(moment(0, edits=[("machine.host.boot_id", "another")]), tmp_path / "before.json")
    found = examined((now,), None, before)
    assert found.earlier is None
    assert any("reboot" in note for note in found.notes)


@pytest.mark.parametrize(("seconds", "code"), [(HOUR_SECONDS, USAGE), (2 * HOUR_SECONDS, USAGE)])
def test_since_the_future_is_refused(tmp_path: Path, seconds: float, code: int) -> None:
    now = saved(moment(HOUR_SECONDS), tmp_path / "now.json")
    since = saved(moment(seconds), tmp_path / "since.json")
    with pytest.raises(Exit) as refused:
        examined((now,), None, since)
    assert refused.value.exit_code == code


def test_since_another_node_is_refused(tmp_path: Path) -> None:
    now = saved(moment(HOUR_SECONDS), tmp_path / "now.json")
    other = msgspec.structs.replace(base("demo dgx-1v"), taken_at=LIVE.taken_at)
    with pytest.raises(Exit) as refused:
        examined((now,), None, saved(other, tmp_path / "other.json"))
    assert refused.value.exit_code == CANNOT_TELL


def test_a_file_that_is_no_snapshot_is_no_reference(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('{"schema": "gputop.snapshot/1", "taken_at": [')
    with pytest.raises(Exit):
        reference(str(path))
    empty = saved(NodeSnapshot(taken_at=0.0), tmp_path / "empty.json")
    with pytest.raises(Exit) as refused:
        reference(empty)
    assert refused.value.exit_code == CANNOT_TELL


def test_a_snapshot_is_a_reference_by_its_file_name(tmp_path: Path) -> None:
    found = reference(saved(LIVE, tmp_path / "sister.json"))
    assert found.name == "sister.json"
    assert found.gpus == 4


def test_a_name_counts_before_a_file_that_happens_to_be_called_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved(LIVE, tmp_path / "dgx-h100")
    saved(LIVE, tmp_path / "sister")
    monkeypatch.chdir(tmp_path)
    assert reference("dgx-h100").sister is None
    assert reference("./dgx-h100").sister is not None
    assert reference("sister").sister is not None

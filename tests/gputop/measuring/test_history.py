"""What is kept of runs: bounded, private, robust against any file, and compared."""

from __future__ import annotations

import json
import os
import stat
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.answers.probe_history import compared as compared_blocks
from gputop.measuring import history
from gputop.measuring.history import SavedFigure, SavedRun, keep, keep_result, node_key, runs
from gputop.measuring.history_compare import compare, compare_last
from gputop.measuring.state import ProbeRequest, ProbeRun
from gputop.printing.render import texts
from gputop.probes.protocol.status import ProbeLevel
from gputop.screens.probes import history as screen_history
from gputop.topology.model.machine import Gpu, Machine
from gputop.topology.model.snapshot import EnvironmentVariable, Measurement, NodeSnapshot
from gputop.widgets.spans import text_of
from tests.support.runs import run_of

UNHEARD = ("runs",)

A, B = "0000:01:00.0", "0000:02:00.0"
KEY = "0123456789abcdef01234567"
MACHINE = Machine(
    gpus=(
        Gpu(address=A, vendor="nvidia", index=0, uuid="GPU-a", name="H"),
        Gpu(address=B, vendor="nvidia", index=1, uuid="GPU-b", name="H"),
    )
)


def run(number: int, value: float = 100.0, **more: Any) -> SavedRun:
    figure = SavedFigure(
        quantity="gemm", src=A, variant="bf16", value=value, unit="TFLOP/s", method="gemm/1"
    )
    given: dict[str, Any] = {"probe": "gemm", "taken_at": float(number), "figures": (figure,)}
    return SavedRun(**(given | more))


def test_what_is_kept_comes_back_in_order(tmp_path: Path) -> None:
    for number in (2, 1, 3):
        assert keep(run(number, 100.0 + number), KEY, tmp_path) == ""
    assert [run.taken_at for run in runs(KEY, tmp_path)] == [2.0, 1.0, 3.0]
    assert runs("another", tmp_path) == ()


def test_the_file_is_for_the_user_alone(tmp_path: Path) -> None:
    keep(run(1), KEY, tmp_path / "history")
    for path in (tmp_path / "history").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "history").stat().st_mode) == 0o700


def test_runs_and_bytes_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MOST_RUNS", 5)
    for number in range(9):
        keep(run(number), KEY, tmp_path)
    assert [run.taken_at for run in runs(KEY, tmp_path)] == [4.0, 5.0, 6.0, 7.0, 8.0]
    line = len(msgspec.json.encode(run(8))) + 1
    monkeypatch.setattr(history, "MOST_BYTES", 3 * line)
    keep(run(9), KEY, tmp_path)
    assert [run.taken_at for run in runs(KEY, tmp_path)] == [7.0, 8.0, 9.0]
    assert (tmp_path / f"{KEY}.jsonl").stat().st_size <= 3 * line


def test_a_broken_line_is_passed_over_and_goes_with_the_next_run(tmp_path: Path) -> None:
    keep(run(1), KEY, tmp_path)
    path = tmp_path / f"{KEY}.jsonl"
    later = msgspec.json.encode(run(2)).replace(b'"schema":1', b'"schema":2')
    path.write_bytes(path.read_bytes() + b'{"probe":"gemm"\n\xff\xfe\n[]\n' + later + b"\n")
    assert len(runs(KEY, tmp_path)) == 1
    assert keep(run(3), KEY, tmp_path) == ""
    assert [run.taken_at for run in runs(KEY, tmp_path)] == [1.0, 3.0]


@given(
    st.one_of(
        st.binary(max_size=400),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
            lambda inner: (
                st.lists(inner, max_size=4)
                | st.dictionaries(
                    st.sampled_from(["probe", "taken_at", "figures", "versions", "schema", "x"]),
                    inner,
                    max_size=5,
                )
            ),
            max_leaves=12,
        ).map(lambda value: msgspec.json.encode(value)),
    )
)
def test_any_file_can_be_read_and_written_over(data: bytes) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / f"{KEY}.jsonl").write_bytes(data)
        compare_last(runs(KEY, folder))
        assert keep(run(1e9), KEY, folder) == ""  # type: ignore[arg-type]
        assert any(run.taken_at == 1e9 for run in runs(KEY, folder))


def test_a_folder_that_cannot_be_written_is_a_note(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert "not kept" in keep(run(1), KEY, blocked / "history")
    assert runs(KEY, blocked / "history") == ()
    # A folder where the file should be.
    (tmp_path / f"{KEY}.jsonl").mkdir()
    assert "not kept" in keep(run(1), KEY, tmp_path)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(f".{KEY}.jsonl.")]


def test_two_writers_lose_nothing(tmp_path: Path) -> None:
    threads = [
        threading.Thread(target=keep, args=(run(number), KEY, tmp_path)) for number in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(run.taken_at for run in runs(KEY, tmp_path)) == [float(n) for n in range(12)]


def test_a_node_is_identified_by_its_devices_and_names_none() -> None:
    key = node_key(MACHINE)
    assert node_key(Machine(gpus=tuple(reversed(MACHINE.gpus)))) == key
    assert node_key(Machine(gpus=MACHINE.gpus[:1])) != key
    other = (MACHINE.gpus[0], msgspec.structs.replace(MACHINE.gpus[1], uuid="GPU-c"))
    assert node_key(Machine(gpus=other)) != key
    assert key.isalnum()
    assert "GPU" not in key


REQUEST = ProbeRequest(probe="gemm", addresses=(A, B), level=ProbeLevel.QUICK)


def ran(*figures: Measurement, **more: Any) -> ProbeRun:
    given: dict[str, Any] = {"request": REQUEST, "measurements": figures, "taken_at": 5.0}
    return run_of("gemm", **(given | more))


def figure(**more: Any) -> Measurement:
    given: dict[str, Any] = {
        "probe": "gemm", "quantity": "gemm", "src": A, "value": 700.0, "unit": "TFLOP/s",
        "device_kind": "gpu", "method": "gemm/1", "variant": "bf16",
        "versions": (("torch", "2.5.1"), ("cuda", "12.4")),
    }  # fmt: skip
    return Measurement(**(given | more))


def test_only_finished_runs_on_live_gpus_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "folder", lambda: tmp_path / "history")
    node = NodeSnapshot(
        taken_at=0.0,
        machine=MACHINE,
        environment=(EnvironmentVariable(name="NCCL_ALGO", value="Ring", origin="environment"),),
    )
    for snapshot, found in (
        (None, ran(figure())),
        (node, ran(figure(), request=msgspec.structs.replace(REQUEST, selftest=True))),
        (node, ran(figure(device_kind="cpu"))),
        (node, ran(figure(), status="died")),
        (node, ran()),
    ):
        assert keep_result(snapshot, found, []) == ""
    assert not (tmp_path / "history").exists()
    assert keep_result(node, ran(figure()), ["healthy"]) == ""
    (kept,) = runs(node_key(MACHINE))
    assert kept.probe == "gemm"
    assert kept.level == "quick"
    assert kept.taken_at == 5.0
    assert kept.versions["torch"] == "2.5.1"
    assert kept.environment == {"NCCL_ALGO": "Ring"}
    assert kept.figures[0].judgement == "healthy"
    assert kept.figures[0].variant == "bf16"
    text = (tmp_path / "history" / f"{node_key(MACHINE)}.jsonl").read_text()
    assert "GPU-a" not in text
    assert os.uname().nodename not in text.replace(A, "")


def test_a_run_is_held_against_the_median_of_the_same_method() -> None:
    earlier = [run(1, 100.0), run(2, 110.0), run(3, 90.0)]
    change = compare(run(4, 80.0), earlier).changes[0]
    assert (change.earlier, change.now, change.runs) == (100.0, 80.0, 3)
    assert change.percent == pytest.approx(-20.0)
    assert change.marked
    assert not compare(run(4, 104.0), earlier).changes[0].marked
    other = [msgspec.structs.replace(f, method="gemm/2") for f in run(9).figures]
    unlike = compare(run(4, 80.0), [run(1, figures=tuple(other))])
    assert unlike.changes[0].earlier is None
    assert not unlike.changes[0].marked
    zero = compare(run(4, 80.0), [run(1, 0.0)]).changes[0]
    assert zero.percent is None


def test_other_versions_and_variables_are_named() -> None:
    now = run(3, versions={"torch": "2.6", "cuda": "12.4"}, environment={"NCCL_P2P_DISABLE": "1"})
    before = [
        run(1, versions={"torch": "2.4", "cuda": "12.4"}),
        run(2, versions={"torch": "2.5", "cuda": "12.4"}),
    ]
    comparison = compare(now, before)
    assert comparison.stack == (("torch", ("2.4", "2.5"), "2.6"),)
    assert comparison.environment == (("NCCL_P2P_DISABLE", ("",), "1"),)
    assert comparison.earlier_runs == 2


def test_the_last_run_of_each_probe_is_the_one_compared() -> None:
    kept = (run(1, 100.0), run(2, 50.0, probe="memory"), run(3, 120.0))
    found = {comparison.probe: comparison for comparison in compare_last(kept)}
    assert found["gemm"].changes[0].now == 120.0
    assert found["gemm"].changes[0].earlier == 100.0
    assert found["memory"].earlier_runs == 0
    assert [comparison.probe for comparison in compare_last(kept, ("memory",))] == ["memory"]


def test_people_read_it_in_80_columns() -> None:
    now = run(3, 80.0, versions={"torch": "2.6\x1b[31m"}, environment={"NCCL_ALGO": "x" * 900})
    blocks = compared_blocks(compare(now, [run(1), run(2)]), {A: "GPU0"})
    text = "\n".join(texts(blocks, 80))
    assert "1 of 1 figures differ by more than 5 %" in text
    assert "-20.0 %" in text
    assert "GPU0" in text
    assert "\x1b" not in text
    assert max(len(line) for line in text.splitlines()) <= 80


def test_the_last_run_is_the_one_kept_last_though_the_clock_was_ahead(tmp_path: Path) -> None:
    for taken_at in (5.0, 9e8, 7.0):
        keep(run(1, taken_at=taken_at), KEY, tmp_path)
    assert [run.taken_at for run in runs(KEY, tmp_path)] == [5.0, 9e8, 7.0]
    (comparison,) = compare_last(runs(KEY, tmp_path))
    assert comparison.taken_at == 7.0


@pytest.mark.parametrize("taken_at", [1e300, -1e18])
def test_a_time_that_no_calendar_has_is_shown_as_unknown(taken_at: float, tmp_path: Path) -> None:
    keep(run(1, taken_at=taken_at), KEY, tmp_path)
    kept = runs(KEY, tmp_path)
    (compared,) = compare_last(kept)
    assert texts(compared_blocks(compared, {}), 80)[0].startswith("gemm, –, level normal")
    assert text_of(screen_history.history_lines(kept, "gemm", {}, 64)[-1]).startswith(" –")


@pytest.mark.parametrize(("size", "readable"), [(10**6, 1), (10**400, 0), (-5, 0)])
def test_a_size_that_no_copy_has_is_no_run(size: int, readable: int, tmp_path: Path) -> None:
    line = msgspec.to_builtins(run(1))
    line["figures"][0]["bytes_per_copy"] = size
    (tmp_path / f"{KEY}.jsonl").write_text(json.dumps(line))
    assert len(runs(KEY, tmp_path)) == readable


@pytest.mark.parametrize("relative", [True, False])
def test_without_a_home_nothing_is_written_where_we_happen_to_be(
    relative: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found(_: str) -> Path:
        if relative:
            return Path("~/.local/state/gputop")
        raise RuntimeError("no home")

    monkeypatch.setattr("platformdirs.user_state_path", found)
    monkeypatch.chdir(tmp_path)
    assert keep(run(1), KEY) == f"the run is not kept in the history: {history.NO_HOME}"
    assert runs(KEY) == ()
    assert not list(tmp_path.iterdir())

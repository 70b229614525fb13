"""Every reader has a budget, and says where it stopped: the table, and one input beyond each."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from gputop.topology.fleet import intake
from gputop.topology.model import format as formats
from gputop.topology.nccl.decide.untuned_builder import UntunedBuilder
from gputop.topology.recorded import load
from tests.harness.endurance.originals import formats as all_formats
from tests.harness.endurance.running import ended

MOST_SEEN_BYTES = 450 * 10**6

BUDGETS = {
    "snapshot": ("recorded.load:LIMIT_BYTES", "recorded.pasted:MOST_GPUS"),
    "check-file": ("recorded.load:LIMIT_BYTES",),
    "nccl-xml": ("nccl.xml.read:MAX_BYTES", "nccl.xml.read:MAX_ELEMENTS"),
    "smi-xml": ("recorded.load:LIMIT_BYTES",),
    "smi-topo": ("recorded.kept:KEPT_BYTES",),
    "nvml-json": ("recorded.load:LIMIT_BYTES", "model.format:MOST_VALUES"),
    "amdsmi-json": ("recorded.load:LIMIT_BYTES", "model.format:MOST_VALUES"),
    "amd-smi-json": ("recorded.formats.amd.smi.documents:MAX_BYTES", "model.format:MOST_VALUES"),
    "rocm-smi-json": ("recorded.formats.amd.smi.documents:MAX_BYTES", "model.format:MOST_VALUES"),
    "amd-text": ("recorded.kept:KEPT_BYTES",),
    "pasted": ("recorded.kept:KEPT_BYTES", "recorded.sections:MOST_SECTIONS"),
    "sysfs-tar": ("sources.files.archive:LIMIT_MEMBERS", "sources.pci.pci:LIMIT_DEVICES"),
    "folder": ("recorded.load:MOST_FILES",),
    "log": ("logs.reading.lines:LARGEST_LOG", "logs.reading.lines:MOST_ZEROS"),
    "log-gz": ("logs.reading.lines:MOST_UNPACKED",),
    "ras-text": ("recorded.kept:KEPT_BYTES", "jobs.ras.answer:LIMIT_RANKS"),
    "ras-json": ("jobs.saved:MOST_BYTES", "model.format:MOST_VALUES"),
    "torchfrtrace": ("logs.reading.lines:LARGEST_LOG",),
    "watchdog": ("logs.reading.lines:LARGEST_LOG",),
    "dumps": ("jobs.flight.pickled:MOST_ITEMS", "jobs.flight.files:MOST_FILES"),
    "fleet": ("fleet.reading:MOST_FILE_BYTES", "fleet.intake:MOST_TEXTS"),
    "pairs": ("fleet.reading:MOST_FILE_BYTES",),
    "policy": ("checking.policy:LIMIT_BYTES",),
    "setting": (),  # of the command line, which the kernel bounds
    "reference": ("recorded.load:LIMIT_BYTES",),
    "ras over TCP": ("jobs.ras.client:MOST_BYTES", "jobs.ras.client:SECONDS"),
    "driver": ("sources.nvidia.devices:_MOST_DEVICES", "sources.amd.handles:_MOST_DEVICES"),
}  # fmt: skip
"""Reader -> the limits that bound what it takes, each where it is enforced."""


def test_every_reader_has_a_budget() -> None:
    assert set(all_formats()) <= set(BUDGETS)
    for limits in BUDGETS.values():
        for limit in limits:
            module, _, name = limit.partition(":")
            home = "gputop" if module.startswith("checking") else "gputop.topology"
            assert getattr(import_module(f"{home}.{module}"), name) > 0


@pytest.mark.parametrize(
    "command",
    [
        ("log",),
        ("jobs", "--from"),
        ("check", "--quick", "--from"),
        ("check", "--quick", "--demo", "hgx-h100-8", "--config"),
        ("check", "--quick", "--demo", "hgx-h100-8", "--since"),
    ],
)
def test_a_sparse_file_is_not_read_to_its_end(command: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(50 * 10**9)
    answer = ended([*command, str(path)])
    assert answer.code == 3
    assert answer.memory_bytes < MOST_SEEN_BYTES
    assert answer.cpu_seconds < 6
    assert any(word in answer.err for word in (b"the limit is", b"more than", b"zeros in a row"))


def _flood(head: str, tail: str) -> Callable[[], str]:
    return lambda: f"{head}[{','.join(['[]'] * 4_000_000)}]{tail}"


@pytest.mark.parametrize(
    ("command", "made"),
    [
        (("check", "--quick", "--from"), _flood('{"devices":', "}")),
        (("check", "--quick", "--from"), _flood('{"amdsmi_get_lib_version": {}, "devices":', "}")),
        (("jobs", "--from"), _flood('{"nccl_version":"2.28.9","communicators":', "}")),
    ],
)
def test_values_of_json_are_counted_before_they_are_made(
    command: tuple[str, ...], made: Callable[[], str], tmp_path: Path
) -> None:
    path = tmp_path / "flood.json"
    path.write_text(made())
    answer = ended([*command, str(path)])
    assert answer.code == 3
    assert answer.memory_bytes < 300 * 10**6, f"{answer.memory_bytes / 1e6:.0f} MB"


def test_what_counts_as_values() -> None:
    most = formats.MOST_VALUES
    formats.check_values(b"," * most)
    for data in (b"," * (most + 1), b"[" * (most // formats.HEAVY + 1)):
        with pytest.raises(formats.TooManyValuesError, match="which is not read"):
            formats.json_values(data)


def test_texts_of_other_programs_are_read_up_to_a_number(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(intake, "MOST_TEXTS", 3)
    for number in range(5):
        (tmp_path / f"n{number}.txt").write_text("hello\n")
    taken = intake.Intake(str(tmp_path))
    taken.take()
    left = [item for item in taken.unusable() if item.kind == "unreadable"]
    assert len(left) == 2
    assert all(item.why.startswith("not read: there are more than 3") for item in left)


def test_a_folder_of_one_node_has_a_number_of_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(load, "MOST_FILES", 2)
    for number in range(3):
        (tmp_path / f"{number}.txt").write_text("hello\n")
    with pytest.raises(load.LoadError, match="3 files; the limit of one node is 2"):
        load.load([str(tmp_path)])


def test_assumptions_of_thousands_of_links_are_told_apart_at_once() -> None:
    builder = UntunedBuilder.__new__(UntunedBuilder)
    builder.assumptions = {}
    began = time.process_time()
    builder._assume(
        *(f"link {number} is assumed." for number in range(40_000)), "link 7 is assumed"
    )
    assert len(builder.assumptions) == 40_000
    assert time.process_time() - began < 2


def calls_of(path: Path) -> int:
    """Functions that reading a folder calls: counted work, which no busy machine changes."""
    count = 0

    def seen(frame: object, event: str, _: object) -> None:
        nonlocal count
        count += event == "call"

    taken = intake.Intake(str(path))
    sys.setprofile(seen)
    try:
        taken.take()
    finally:
        sys.setprofile(None)
    return count


def test_a_small_file_of_another_program_costs_little(tmp_path: Path) -> None:
    for number in range(40):
        (tmp_path / f"n{number}.json").write_text(json.dumps({"number": number}))
    calls_of(tmp_path)
    assert calls_of(tmp_path) < 40 * 1500

"""Every reader has a budget, and says where it stopped: the table, and one input beyond each."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from gputop.topology.fleet import intake
from gputop.topology.jobs import saved
from gputop.topology.jobs.flight import files as dump_files
from gputop.topology.model import budget
from gputop.topology.model import format as formats
from gputop.topology.nccl.decide.untuned_builder import UntunedBuilder
from gputop.topology.recorded import load, sections
from tests.grid import share
from tests.harness.endurance.originals import formats as all_formats
from tests.harness.endurance.running import ended
from tests.support.command import gputop_here
from tests.support.cpu import within
from tests.support.places import RECORDINGS
from tests.topology.jobs.flight.test_compare import dumped, entry

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
    "threads": ("recorded.kept:KEPT_BYTES", "logs.reading.lines:LARGEST_LOG"),
    "pasted": ("recorded.kept:KEPT_BYTES", "recorded.sections:MOST_SECTIONS"),
    "sysfs-tar": ("sources.files.archive:LIMIT_MEMBERS", "sources.pci.pci:LIMIT_DEVICES"),
    "folder": ("recorded.load:MOST_FILES",),
    "log": ("logs.reading.lines:LARGEST_LOG", "logs.reading.lines:MOST_ZEROS"),
    "log-gz": ("logs.reading.lines:MOST_UNPACKED",),
    "ras-text": (
        "recorded.kept:KEPT_BYTES",
        "jobs.ras.answer:LIMIT_RANKS",
        "jobs.saved:MOST_ANSWERS",
        "jobs.saved:MOST_SAVED",
        "jobs.saved:MOST_COMMUNICATORS",
    ),
    "ras-json": ("jobs.saved:MOST_BYTES", "model.format:MOST_VALUES"),
    "torchfrtrace": ("logs.reading.lines:LARGEST_LOG",),
    "watchdog": ("logs.reading.lines:LARGEST_LOG",),
    "dumps": (
        "jobs.flight.pickled:MOST_ITEMS",
        "jobs.flight.files:MOST_FILES",
        "jobs.flight.dump:MOST_RANKS",
        "jobs.flight.dump:MOST_MEMBERS",
        "jobs.troubles:MOST_MISSING",
    ),
    "job-folder": (
        "jobs.inspector.records:MOST_BYTES",
        "jobs.inspector.records:MOST_OPERATIONS",
        "jobs.inspector.telling:MOST_JOBS",
    ),
    "fleet": ("fleet.reading:MOST_FILE_BYTES", "fleet.intake:MOST_TEXTS"),
    "pairs": ("fleet.reading:MOST_FILE_BYTES",),
    "policy": ("checking.policy:LIMIT_BYTES", "toml:MOST_PARTS"),
    "setting": (),  # of the command line, which the kernel bounds
    "option": (),
    "expect": ("recorded.load:LIMIT_BYTES",),
    "since": ("recorded.load:LIMIT_BYTES",),
    "theme": ("theming:_LIMIT_BYTES", "toml:MOST_PARTS"),
    "app-settings": ("terminal.settings:MOST_BYTES", "toml:MOST_PARTS"),
    "preferences": ("terminal.preferences:MOST_BYTES",),
    "history": ("measuring.history:MOST_BYTES",),
    "nccl-conf": ("sources.linux.configuration_files:LIMIT_BYTES",),
    "network": ("fleet.planning.fabric_text:LIMIT_BYTES",),
    "ras-tcp": ("jobs.ras.client:MOST_BYTES", "jobs.ras.client:SECONDS"),
    "compared": ("recorded.load:LIMIT_BYTES",),
    "model": ("cost.config:MOST_BYTES", "cost.config:MOST_PARAMETERS"),
    "agent": ("agents.serving:LONGEST_LINE", "agents.calls:MOST_WAITING"),
    "node": ("recorded.load:LIMIT_BYTES", "recorded.load:MOST_GPUS"),
    "driver": ("sources.nvidia.devices:_MOST_DEVICES", "sources.amd.handles:_MOST_DEVICES"),
}  # fmt: skip
"""Reader -> the limits that bound what it takes, each where it is enforced."""


def test_every_reader_has_a_budget() -> None:
    assert set(all_formats()) <= set(BUDGETS)
    for limits in BUDGETS.values():
        for limit in limits:
            module, _, name = limit.partition(":")
            outer = module.startswith(("checking", "theming", "terminal", "measuring", "agents"))
            home = "gputop" if outer else "gputop.topology"
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


def test_a_long_key_of_a_policy_takes_little(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_text("a." * 30_000 + "b = 1\n")
    answer = ended(["check", "--quick", "--demo", "hgx-h100-8", "--config", str(path)])
    assert answer.code == 3
    assert b"gputop's limit" in answer.err
    assert answer.memory_bytes < 300 * 10**6


def _dump(ranks: int) -> str:
    call = {
        "process_group": ["0", "default_pg"],
        "collective_seq_id": 1,
        "profiling_name": "nccl:all_reduce",
        "state": "scheduled",
        "retired": False,
    }
    group = {"desc": "default_pg", "ranks": str(list(range(ranks)))}
    return json.dumps({"version": "2.5", "pg_config": {"0": group}, "entries": [call]})


@pytest.mark.parametrize(
    "command", share([(("jobs", "--json", "--from"),), (("log", "--json"),), (("log",),)], 2)
)
def test_ranks_that_a_dump_names_and_nobody_knows_are_limited(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    path = tmp_path / "trace_0"
    path.write_text(_dump(65_536))
    answer = ended([*command, str(path)])
    assert answer.code == 0
    assert b"65,536 ranks, 1 waited in all-reduce 1" in b" ".join(answer.out.split())
    assert b"61,439 more ranks without a dump are not listed: gputop lists 4,096" in b" ".join(
        answer.out.split()
    )
    assert len(answer.out) < 3 * 10**6
    path.write_text(_dump(2_000_000))
    answer = ended([*command, str(path)])
    assert answer.code == 3
    assert b"a group of more than 65,536 ranks, which is gputop's limit" in b" ".join(
        (answer.out + answer.err).split()
    )
    assert len(answer.out) < 10_000
    assert answer.memory_bytes < 300 * 10**6


def _many_answers(answers: int, communicators: int) -> str:
    group = f"    0      {communicators}         2         4         8         8   RUNNING      OK"
    heading = "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors"
    lines = ["$ ncclras -v", "NCCL version 2.30.7 compiled with CUDA 12.8"]
    for number in range(answers):
        lines += ["Job summary", f"  2  4  1  {number}  8", "Communicators... (0.00s)"]
        lines += [heading, group, ""]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("answers", "communicators", "limit"),
    [(300, 9999, b"65,536 communicators"), (260, 1, b"256 answers")],
)
def test_many_answers_of_ras_take_little(
    answers: int, communicators: int, limit: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "ras.txt"
    path.write_text(_many_answers(answers, communicators))
    answer = ended(["jobs", "--from", str(path)])
    assert answer.code == 0
    assert b"more than %s of RAS, which is gputop's limit" % limit in answer.err
    assert answer.cpu_seconds < 10


def test_files_behind_many_communicators_of_ras_are_not_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(saved, "MOST_COMMUNICATORS", 20)
    for name in "abc":
        (tmp_path / f"{name}.txt").write_text(_many_answers(1, 12))
    answer = ended(["jobs", "--from", str(tmp_path)])
    assert answer.err.startswith(b"c.txt: not read: more than 65,536 communicators")


READERS = {
    **dict.fromkeys(("snapshot", "check-file", "nccl-xml", "smi-xml", "smi-topo"), "node"),
    **dict.fromkeys(("nvml-json", "amdsmi-json", "amd-smi-json", "rocm-smi-json"), "node"),
    **dict.fromkeys(("amd-text", "pasted", "sysfs-tar", "folder", "expect", "since"), "node"),
    **dict.fromkeys(("compared", "node"), "node"),
    "threads": "log",
    **dict.fromkeys(("log", "log-gz", "torchfrtrace", "watchdog"), "log"),
    **dict.fromkeys(("ras-text", "ras-json", "dumps", "job-folder"), "jobs"),
    **{"fleet": "fleet", "pairs": "plan"},
}
"""Reader -> whose seconds it takes. The others read at most 16 MiB, or have a limit of time."""


_MORE = {"plan": ("--nodes", "g1,g2"), "fleet": ("-v",)}


def test_every_reader_of_much_has_seconds() -> None:
    # Recordings of sessions are cut and spoilt where they are written and read.
    assert {*READERS.values(), "recording"} == set(budget.SECONDS)
    small = (
        "policy",
        "setting",
        "app-settings",
        "option",
        "theme",
        "preferences",
        "history",
        "nccl-conf",
        "model",
    )
    timed = {"network", "ras-tcp", "driver", "agent"}
    assert set(BUDGETS) - set(READERS) == {*small, *timed}


@pytest.mark.parametrize(
    ("reader", "command", "files"),
    [
        ("node", ("topo", "--from"), ("a.txt", "b.txt")),
        ("fleet", ("fleet",), ("a.txt", "b.txt")),
        ("plan", ("fleet", "plan"), ("net-1-1.json",)),
        ("log", ("log",), ()),
        ("jobs", ("jobs", "--from"), ("a.txt", "b.txt")),
    ],
)
def test_what_there_are_no_seconds_for_is_named(
    reader: str,
    command: tuple[str, ...],
    files: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = tmp_path / "log.txt"
    source.write_text("nothing\n" * 300_000)
    if files:
        source = tmp_path / "folder"
        source.mkdir()
        for name in files:
            (source / name).write_text("{}\n")
    monkeypatch.setitem(budget.SECONDS, reader, -1.0)
    answer = ended([*command, str(source), *_MORE.get(reader, ())])
    said = b" ".join((answer.out + answer.err).split())
    assert b"s of CPU, which is gputop's limit" in said, said


def _flood(head: str, tail: str) -> Callable[[], str]:
    return lambda: f"{head}[{','.join(['[]'] * 4_000_000)}]{tail}"


MANY_VALUES = b"JSON of more than 3,000,000 values"


@pytest.mark.parametrize(
    ("command", "made", "said"),
    [
        (("check", "--quick", "--from"), _flood('{"devices":', "}"), b"not a format"),
        (
            ("check", "--quick", "--from"),
            _flood('{"amdsmi_get_lib_version": {}, "devices":', "}"),
            MANY_VALUES,
        ),
        (
            ("jobs", "--from"),
            _flood('{"nccl_version":"2.28.9","communicators":', "}"),
            MANY_VALUES,
        ),
        (("log",), _flood('{"entries":', "}"), MANY_VALUES),
    ],
)
def test_values_of_json_are_counted_before_they_are_made(
    command: tuple[str, ...], made: Callable[[], str], said: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "flood.json"
    path.write_text(made())
    answer = ended([*command, str(path)])
    assert answer.code == 3
    assert said in b" ".join(answer.err.split())
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
    links = (f"link {number} is assumed." for number in range(40_000))
    with within(2):
        builder._assume(*links, "link 7 is assumed")
    assert len(builder.assumptions) == 40_000


@pytest.mark.parametrize("command", [("jobs", "--from"), ("log",)], ids=" ".join)
def test_a_folder_with_more_dumps_than_are_read_says_so(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dump_files, "MOST_FILES", 2)
    for rank in range(3):
        (tmp_path / f"trace_{rank}").write_bytes(dumped(entry(1)))
    done = gputop_here(*command, str(tmp_path), "--json")
    assert f"{tmp_path}: of 3 files gputop reads 2 at most" in done.stderr
    (tmp_path / "trace_2").unlink()
    assert "at most" not in gputop_here(*command, str(tmp_path), "--json").stderr


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
    assert calls_of(tmp_path) < 40 * 1650


CUTS: tuple[tuple[str, str, int, str, str], ...] = (
    ("sources.pci.pci", "LIMIT_DEVICES", 3, "hgx-h200-4gpu-vm/*.tar.gz", "PCI devices"),
    ("sources.pci.network", "LIMIT_INTERFACES", 1, "hgx-h200-4gpu-vm/*.tar.gz", "interfaces"),
    ("sources.pci.network", "LIMIT_DEVICES", 1, "", "RDMA devices"),
    ("sources.pci.network", "LIMIT_PORTS", 1, "", "ports of mlx5_0"),
    ("sources.kfd.files", "LIMIT_NODES", 6, "kfd/mi308x-8-cpx.tar.gz", "KFD nodes"),
    ("sources.kfd.files", "LIMIT_LINKS", 2, "kfd/mi308x-8-cpx.tar.gz", "io_links of KFD node"),
    ("sources.amdgpu.files", "LIMIT_DEVICES", 1, "", "GPUs of amdgpu"),
    ("sources.nvidia.parse_machine", "MAX_DEVICES", 1, "hgx-*/nvml.json", "GPUs"),
    ("sources.amd.parse_machine", "MAX_DEVICES", 1, "*/amdsmi.json", "GPUs"),
    ("recorded.formats.nvidia.smi.full_xml", "_MAX_GPUS", 1, "hgx-*/*.xml", "GPUs"),
    ("recorded.formats.network.devices", "MAX_DEVICES", 1, "pasted/*ibstat*", "RDMA devices"),
    ("recorded.formats.network.devices", "MAX_PORTS", 0, "pasted/*rdma-link*", "ports of"),
)
"""Module, limit, a value that cuts, what is read, what is said. "": a made tree."""
TREE = {
    **{f"class/infiniband/mlx5_{n}/ports/{port}/state": "4: ACTIVE" for n in "01" for port in "12"},
    **{f"bus/pci/devices/0000:0{n}:00.0/vendor": "0x1002" for n in "12"},
    **{f"bus/pci/drivers/amdgpu/0000:0{n}:00.0/vendor": "0x1002" for n in "12"},
}


@pytest.mark.parametrize(("module", "limit", "most", "pattern", "said"), CUTS)
def test_what_our_own_limit_cuts_is_a_problem(
    module: str,
    limit: str,
    most: int,
    pattern: str,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    for name, text in TREE.items():
        file = tmp_path / "sys" / name
        file.parent.mkdir(parents=True)
        file.write_text(f"{text}\n")
    found = sorted(RECORDINGS.glob(pattern)) if pattern else [tmp_path]
    paths = [str(path) for path in found]
    assert not [text for path in paths for text in _cuts(path)]
    monkeypatch.setattr(import_module(f"gputop.topology.{module}"), limit, most)
    sections._read.cache_clear()
    cuts = [text for path in paths for text in _cuts(path)]
    assert any(said in text for text in cuts), cuts
    if not pattern:
        answer = ended(["check", "--quick", "--from", paths[0], "-v"])
        assert answer.code == 3
        assert b"its own limits cut it off" in answer.out
        assert b"driver fails" not in answer.out


def _cuts(path: str) -> list[str]:
    try:
        snapshot = load.load([path]).snapshot
    except load.LoadError:
        return []
    texts = (*(problem.text for problem in snapshot.problems), *snapshot.assumptions)
    return [text for text in texts if "gputop reads" in text]

"""`--from`: what is read, what is refused, and how that is said."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.topology.model.machine import Gpu, Machine
from gputop.topology.model.readings import GpuReading, Readings
from gputop.topology.model.snapshot import NodeSnapshot, decode, encode
from gputop.topology.node import Node
from gputop.topology.recorded.load import LoadError, load
from gputop.topology.recorded.plain_file import PACKED
from gputop.topology.wiring.relations import format_matrix
from tests.support.command import gputop_here
from tests.support.places import RECORDINGS
from tests.topology.jobs.flight.test_compare import dumped, entry

RECORDING = RECORDINGS / "hgx-h200-4gpu-vm"
SNAPSHOT = NodeSnapshot(
    taken_at=1.0,
    gputop="0.1.0",
    machine=Machine(gpus=(Gpu(address="0000:01:00.0", vendor="nvidia", index=0),)),
)

RAS = Path(__file__).parents[2] / "recordings" / "ras"
JSON_DUMP = json.dumps({"entries": [entry(1)], "pg_config": {}, "version": "2.10"}).encode()
ANSWER, TEXT = ((RAS / name).read_bytes() for name in ("healthy.json", "killed.txt"))


def test_a_folder_gives_everything_in_it_that_is_known() -> None:
    loaded = load([str(RECORDING)])
    machine = loaded.snapshot.machine
    assert [gpu.address for gpu in machine.gpus] == [f"0000:00:0{n}.0" for n in (6, 7, 8, 9)]
    assert {gpu.numa_node for gpu in machine.gpus} == {0}
    for gpu in machine.gpus:
        assert gpu.fabric is not None
        assert gpu.fabric.state == "completed"
        assert [link.raw_gbs for link in gpu.nvlinks] == [26.562] * 18
    report = Node(loaded.snapshot)
    assert "GPU0\t X \tNV18\tNV18\tNV18\t0-63\t0\t\tN/A" in format_matrix(report.matrix)
    (wire,) = (
        edge["wire"]
        for _, _, edge in report.graph.edges(machine.gpus[0].address, data=True)
        if edge["wire"].kind == "nvlink"
    )
    assert (wire.count, round(wire.raw_gbs, 1), wire.payload_gbs) == (18, 478.1, 450.0)


def test_what_is_not_known_is_named(tmp_path: Path) -> None:
    for name in ("nvml.json",):
        shutil.copy(RECORDING / name, tmp_path)
    (tmp_path / "notes.txt").write_text("call Bob about GPU 3")
    (tmp_path / "topo.xml").write_text('<graphs version="1"><graph id="0"/></graphs>')
    (tmp_path / "broken.json").write_text('{"schema": "gputop.snapshot/1", ')
    loaded = load([str(tmp_path)])
    assert loaded.snapshot.source == ("nvml.json",)
    reasons = dict(loaded.skipped)
    known, _, helps = reasons["notes.txt"].partition("; ")
    assert known == "not a format that gputop knows"  # the same of all such files of a folder
    assert helps.startswith("what helps: nvidia-smi topo -m")
    assert "graph XML" in reasons["topo.xml"]
    assert "not JSON" in reasons["broken.json"]
    with pytest.raises(LoadError, match=r"knows \(line 1: call Bob about GPU 3\); what helps"):
        load([str(tmp_path / "notes.txt")])


def test_a_snapshot_comes_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "node.json"
    path.write_bytes(encode(SNAPSHOT))
    loaded = load([str(path)], version="9.9").snapshot
    assert loaded.source == ("node.json",)
    assert msgspec.structs.replace(loaded, source=SNAPSHOT.source) == SNAPSHOT


def write(tmp_path: Path, content: bytes) -> str:
    path = tmp_path / "file"
    path.write_bytes(content)
    return str(path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "empty"),
        (b"\x00\x01\x02" * 1000, "not a format"),
        (encode(SNAPSHOT)[:200], "not JSON"),
        (b'{"schema": "gputop.snapshot/1", "gputop": "\xff"}', "not JSON"),
        (b'{"schema": "gputop.snapshot/1", "unknown": "\xff"}', "not JSON"),
        (encode(SNAPSHOT).replace(b"snapshot/1", b"snapshot/99"), "this gputop reads"),
        (encode(SNAPSHOT).replace(b'"nvidia"', b"7"), "does not fit"),
        (b'{"schema": "gputop.snapshot/1"}', "does not fit"),
        (b'{"schema": "gputop.snapshot/1", "a":' + b"[" * 100_000, "not JSON"),
        (b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "b">]><nvidia_smi_log>&a;', "broken"),
        (b"NCCL INFO Bootstrap : Using eth0", "NCCL debug log"),
    ],
)
def test_bad_files_end_in_one_clear_line(tmp_path: Path, content: bytes, said: str) -> None:
    with pytest.raises(LoadError, match=said) as error:
        load([write(tmp_path, content)])
    assert "\n" not in str(error.value)
    assert not error.value.unreadable


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.json"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(LoadError, match="the limit is"):
        load([str(path)])


@pytest.mark.parametrize("name", ["/nonexistent/x.json", "/dev/zero", "a\x00b"])
def test_paths_that_cannot_be_read(name: str) -> None:
    with pytest.raises(LoadError) as error:
        load([name])
    assert error.value.unreadable


def test_an_empty_folder_has_nothing_to_read(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="nothing in it"):
        load([str(tmp_path)])


@given(st.binary(max_size=400) | st.text(max_size=400).map(str.encode))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder), content)
        try:
            loaded = load([path])
        except LoadError as error:
            said = str(error)
        else:
            said = " ".join(loaded.snapshot.source)
        assert said


def test_equal_figures_are_written_alike_by_every_way_of_reading() -> None:
    whole = GpuReading(address="0000:00:06.0", utilization_percent=95, power_watts=700)
    assert whole == GpuReading(address="0000:00:06.0", utilization_percent=95.0, power_watts=700.0)
    written = encode(NodeSnapshot(taken_at=0.0, readings=Readings(gpus=(whole,))))
    assert b'"utilization_percent":95.0' in written.replace(b" ", b"")
    assert encode(decode(written)) == written


# `--from`: files of other kinds are named as what they are, with what reads them.
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (dumped(entry(1)), "flight recorder dumps it, .* see `gputop log FILE`"),
        (JSON_DUMP, "flight recorder dumps it, .* see `gputop log FILE`"),
        (ANSWER, "NCCL's RAS service, .* `gputop jobs --from FILE`"),
        (TEXT, "NCCL's RAS service, .* `gputop log FILE`"),
        (b"SERVER PROTOCOL 2\nOK\n" + ANSWER, "NCCL's RAS service"),
        (b'{\n  "schema": "gputop.jobs/1"}', "JSON that a command of gputop printed"),
        (b'{"version": 3, "entries": []}', "not a format"),
        (b"NCCL version 2.28.9+cuda13.0\n", "NCCL debug log"),
    ],
)
def test_a_file_of_another_kind_is_named(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(LoadError, match=said) as error:
        load([str(path)])
    assert "\n" not in str(error.value)


FOREIGN = (
    {"gpu": 0, "power": 71.5, "usage": {"gfx": 3}},
    {"nodes": [{"gpu": 1, "driver": "550", "clock": 1500, "temperature": 40}]},
    {"jobs": [{"gpu": 3, "numa": 1, "partition": "batch", "limit": 8}]},
    {"card0": {"title": "Ace"}, "card1": {"title": "King"}},
    {"gpus": [{"index": 0, "uuid": "GPU-1", "memory.used": 4}], "hostname": "n1"},
    {"status": "success", "data": {"result": [{"metric": {"gpu": "0"}, "value": [1, "2"]}]}},
    {"cells": [], "nbformat": 4, "metadata": {"gpu": 1, "vram": 80}},
    {"devices": [{"nvml": 1, "amdsmi": 2, "bus": 3, "gpu": 4}]},
)


@pytest.mark.parametrize("cut", [0, 3])
@pytest.mark.parametrize("document", FOREIGN, ids=lambda document: next(iter(document)))
def test_json_of_nobody_knows_whom_is_no_broken_output_of_a_tool(
    tmp_path: Path, document: dict[str, object], cut: int
) -> None:
    text = json.dumps(document)
    (tmp_path / "odd.json").write_text(text[: len(text) - cut])
    with pytest.raises(LoadError) as error:
        load([str(tmp_path / "odd.json")])
    assert not re.search("broken(?!, if it is)", str(error.value))


@pytest.mark.parametrize("name", ["nvml_readings", "amdsmi_readings"])
def test_readings_of_our_own_sources_are_named(tmp_path: Path, name: str) -> None:
    question = "nvmlDeviceGetTemp" if name.startswith("nvml") else "amdsmi_get_gpu_activity"
    moments = [{"devices": [{"index": 0, "gpu": 0, question: {"clock": 1, "power": 3}}]}] * 2
    (tmp_path / f"{name}.json").write_text(json.dumps(moments))
    with pytest.raises(LoadError, match="NVML or amdsmi at several moments"):
        load([str(tmp_path / f"{name}.json")])


@pytest.mark.parametrize(
    ("sign", "name"), [(sign, name) for sign, (name, _) in PACKED.items()], ids=lambda x: str(x)
)
def test_a_packing_that_is_not_read_is_named_with_what_unpacks_it(
    tmp_path: Path, sign: bytes, name: str
) -> None:
    path = tmp_path / "x.packed"
    path.write_bytes(sign + b"9\x00\x01\xffrest")
    for words in (("log",), ("topo", "--from")):
        done = gputop_here(*words, str(path))
        assert done.returncode == 3
        assert f"x.packed: packed with {name}; `{PACKED[sign][1]} x.packed | gputop" in done.stderr
        assert len(done.stderr.splitlines()) == 1

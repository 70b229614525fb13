from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.probes.catalog.net.notices import FileNotices
from gputop.topology.fleet import intake, reading
from gputop.topology.fleet.merging.growing import read_fleet
from gputop.topology.fleet.reading import host_of, read_file
from gputop.topology.fleet.record import Beside, Interned, NodeReport, Unusable
from tests.support.fleet_made import node, packed

SOUND = packed(node("g1"))


def read(folder: Path, name: str, data: bytes | None = None) -> object:
    if data is not None:
        (folder / name).write_bytes(data)
    return read_file(str(folder), name, Interned())


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"", "cut-off"),
        (SOUND[:-20], "cut-off"),
        (gzip.decompress(SOUND)[:-20], "cut-off"),
        (b"\x1f\x8b\x08 no gzip", "damaged"),
        (gzip.compress(b" " * (reading.MOST_UNPACKED_BYTES + 1)), "too-large"),
        (b'{"schema": "gputop.check/2", "gputop": "9.0"}', "newer"),
        (b'{"schema": "gputop.check/0"}', "damaged"),
        (b'{"schema": "gputop.check/1"}', "damaged"),
        (b'{"schema": "gputop.check/1", "verdict": 5, "taken_at": 1}', "damaged"),
        (
            b'{"schema": "gputop.check/1", "verdict": "fine", "taken_at": 1, "node": "g1"}',
            "damaged",
        ),
        (
            b'{"schema": "gputop.check/1", "verdict": "slow", "taken_at": 1, "node": "; x"}',
            "damaged",
        ),
        (b'{"schema": "gputop.snapshot/1"}', "other-document"),
        (b'{"schema": "gputop.check/1"' + b"[" * 100_000, "cut-off"),
    ],
    ids=range(13),
)
def test_what_tells_nothing_says_why(tmp_path: Path, data: bytes, kind: str) -> None:
    found = read(tmp_path, "g1.json.gz", data)
    assert isinstance(found, Unusable)
    assert (found.kind, found.host) == (kind, "g1")
    assert "\n" not in found.why


def test_what_is_no_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/etc/hostname")
    kinds = [read(tmp_path, name).kind for name in ("pipe", "link", "gone")]  # type: ignore[attr-defined]
    assert kinds == ["no-file", "link", "unreadable"]


def test_a_large_file_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "big").open("wb") as file:
        file.truncate(reading.MOST_FILE_BYTES + 1)
    found = read(tmp_path, "big")
    assert isinstance(found, Unusable)
    assert found.kind == "too-large"


def test_hostile_texts_become_harmless(tmp_path: Path) -> None:
    made = node("g1")
    made["fleet"]["facts"]["driver"] = {"driver\x1b[31m": "1\u202e2\n3"}
    made["findings"] = [{"id": "a\nb", "severity": "broken", "title": "\x1b]0;x\x07" + "t" * 9000}]
    found = read(tmp_path, "g1.json.gz", packed(made))
    assert isinstance(found, NodeReport)
    ((what, value),) = found.category("driver").items()
    texts = (what, value, found.findings[0].id, found.findings[0].title)
    assert all(text.isprintable() for text in texts)
    assert max(map(len, texts)) <= 300


def test_figures_that_are_none_are_left_out(tmp_path: Path) -> None:
    made = json.loads(gzip.decompress(SOUND))
    made["fleet"]["figures"][0]["worst"] = 0
    found = read(tmp_path, "g1.json", json.dumps(made).encode())
    assert isinstance(found, NodeReport)
    assert len(found.values) == 2 * len(found.kinds) == 2 * (len(made["fleet"]["figures"]) - 1)


def test_results_of_pairs_lie_beside(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        "pair.json",
        b'{"schema": "gputop.net/1", "hosts": ["g1", "g2"], "status": "finished"}',
    )
    assert isinstance(found, Beside)
    assert read_fleet(str(tmp_path)).pairs == ("pair.json",)


def test_files_by_which_nodes_meet_lie_beside_and_say_nothing(tmp_path: Path) -> None:
    notices = FileNotices(str(tmp_path / "net-1-g1-g2-1.meet"), 0)
    notices.put("hello", "{}")
    assert isinstance(read_file(str(tmp_path), "net-1-g1-g2-1.meet.0", Interned()), Beside)
    assert [item.id for item in read_fleet(str(tmp_path)).findings] == ["no-nodes"]


def test_equal_nodes_share_their_facts(tmp_path: Path) -> None:
    shared = Interned()
    found = []
    for host in ("g1", "g2"):
        (tmp_path / host).write_bytes(packed(node(host)))
        found.append(read_file(str(tmp_path), host, shared))
    one, two = found
    assert isinstance(one, NodeReport)
    assert isinstance(two, NodeReport)
    assert all(a is b for a, b in zip(one.facts, two.facts, strict=True))
    assert one.kinds is two.kinds


@pytest.mark.parametrize(
    ("name", "host"),
    [
        ("g1.json.gz", "g1"),
        ("41/g1.json", "g1"),
        ("g1.cluster.log", "g1"),
        ("a b.json", None),
        (".json", None),
    ],
)
def test_a_name_stands_for_a_host(name: str, host: str | None) -> None:
    assert host_of(name) == host


@given(st.integers(0, len(SOUND) - 1), st.integers(0, 255), st.booleans())
def test_a_damaged_byte_is_never_fatal(
    tmp_path_factory: pytest.TempPathFactory, place: int, value: int, unpacked: bool
) -> None:
    data = bytearray(gzip.decompress(SOUND) if unpacked else SOUND)
    data[place] = value
    folder = tmp_path_factory.mktemp("one")
    (folder / "g1.json.gz").write_bytes(data)
    assert read_fleet(str(folder), ["g1"], now=2e9).hosts


def test_files_beyond_the_most_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "MOST_FILES", 2)
    for host in ("g1", "g2", "g3", "g4", "g5"):
        (tmp_path / f"{host}.json").write_bytes(packed(node(host)))
    found = intake.Intake(str(tmp_path))
    found.take()
    assert len(list(found.reports())) == 2
    (left,) = found.unusable()
    assert left.why == "not read: there are more than 2 files"


@pytest.mark.parametrize(
    ("name", "host"),
    [("a.json.gz", "a"), ("sick-h100-8.json.gz", "sick-h100-8"), ("; x.json.gz", "sick-h100-8")],
)
def test_checks_of_demos_have_names_of_their_own(tmp_path: Path, name: str, host: str) -> None:
    """All demos have one host name, by which two of them were one node."""
    made = {**node("demo"), "source": ["demo sick-h100-8"]}
    found = read(tmp_path, name, packed(made))
    assert isinstance(found, NodeReport)
    assert found.host == host
    found = read(tmp_path, name, packed({**node("g7"), "source": ["demo sick-h100-8"]}))
    assert isinstance(found, NodeReport)
    assert found.host == "g7", "a node that was made of a demo and named"
    found = read(tmp_path, name, packed({**made, "source": ["live"]}))
    assert isinstance(found, NodeReport)
    assert found.host == "demo"

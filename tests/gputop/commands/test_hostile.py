"""Whatever stands in a snapshot, a log, an XML or a driver's answer, no output is obeyed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import unicodedata
import xml.etree.ElementTree as Xml
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.answers import QUESTIONS
from gputop.commands import NAMES
from gputop.terminal.lines import print_json, warn
from gputop.terminal.output import overwrite
from gputop.topology.exports import NAMES as FORMATS
from gputop.topology.model import characters
from gputop.topology.model.characters import HOSTILE, harmless, json_pieces, json_text
from tests import grid
from tests.support.command import Captured, gputop
from tests.support.hostile import EVIL, OBEYED, obeyed, poisoned, strings
from tests.support.places import RECORDINGS, TESTS

COMMANDS = [
    *(("topo", "--format", name) for name in FORMATS),
    ("topo", "--json"),
    ("snapshot",),
    ("snapshot", "--redact"),
    ("explain",),
    ("explain", "0", "1", "--set", "NCCL_ALGO=Ring"),
    ("explain", "--json", "--nodes", "2"),
    ("flags",),
    ("flags", "--json"),
    ("flags", "NCCL_ALGO"),
    ("check", "-v"),
    ("check", "--json"),
]
NODES = {
    "nvidia": ("--demo", "sick-h100-8"),
    "amd": ("--demo", "mi300x-8"),
    "xml": ("--from", str(RECORDINGS / "nccl-topologies/real.xml")),
}


def clean_output(done: subprocess.CompletedProcess[str]) -> None:
    """Hold one answer to what all must keep to."""
    assert done.returncode in (0, 1, 2, 3, 64), done
    assert obeyed(done.stdout + done.stderr) == set(), done.args
    if "--json" in done.args or "json" in done.args:
        assert not done.stdout or json.loads(done.stdout)
    if {"nccl-xml", "graphml", "svg"} & set(done.args):
        assert not done.stdout or Xml.fromstring(done.stdout) is not None


@pytest.fixture(params=NODES)
def node(request: pytest.FixtureRequest) -> str:
    """The snapshot of a node."""
    read = gputop("snapshot", *NODES[request.param])
    if request.param == "xml":
        rack = '"children": [{"tag": "rack", "attributes": [["colour", "blue"]], "children": []},'
        return read.stdout.replace('"children": [', rack, 1)
    return read.stdout


@pytest.mark.parametrize("share", grid.share([None, 0, 1, 2], 4))
def test_every_text_of_a_snapshot_may_be_hostile(
    tmp_path: Path, node: str, share: int | None
) -> None:
    place, suite = tmp_path / "node.json", tmp_path / "suite.xml"
    place.write_text(json.dumps(poisoned(json.loads(node), share)))
    for words in COMMANDS:
        clean_output(gputop(*words, "--from", str(place)))
    gputop("check", "--junit", str(suite), "--from", str(place))
    assert obeyed(suite.read_text()) == set()
    assert Xml.fromstring(suite.read_text()) is not None
    # Nothing is lost of what a snapshot holds, however it is written.
    again = tmp_path / "again.json"
    assert gputop("snapshot", "-o", str(again), "--from", str(place)).returncode == 0
    assert obeyed(again.read_text()) == set()
    read = gputop("snapshot", "--from", str(place))
    assert any(EVIL in text for text in strings(json.loads(again.read_text())))
    assert any(EVIL in text for text in strings(json.loads(read.stdout)))


def test_a_driver_may_give_hostile_names() -> None:
    name = EVIL.replace("\0", "")  # which no variable holds
    for words in (("topo",), ("topo", "--format", "dot"), ("snapshot",), ("check", "--quick")):
        done = gputop(
            *words,
            PYTHONPATH=str(TESTS / "fakes"),
            GPUTOP_FAKE_NVML="fine",
            GPUTOP_FAKE_NAME=name,
        )
        clean_output(done)
        assert "owned" in done.stdout or words[0] in ("topo", "check")


def test_what_nvidia_smi_printed_may_be_hostile(tmp_path: Path) -> None:
    text = (RECORDINGS / "nvidia-public/t4.xml").read_text()
    evil = "".join(f"&#{ord(c)};" for c in EVIL if c in "\t\n\r" or " " <= c < "\ufffe")
    place = tmp_path / "smi.xml"
    place.write_text(re.sub(r"(?<=>)([^<>\n]+)(?=</)", lambda found: found[0] + evil, text))
    for words in COMMANDS:
        clean_output(gputop(*words, "--from", str(place)))


def test_a_log_may_be_hostile(tmp_path: Path) -> None:
    lines = [
        "NCCL version 2.28.9+cuda12.9",
        f"NCCL_ALGO set by environment to {EVIL}",
        f"Channel 00/0 : 0[0] -> 1[1] via NET/{EVIL}/0",
        f"NET/IB : Using [0]{EVIL}:1/RoCE [RO]; OOB {EVIL}:10.0.0.1<0>",
        f"ncclCommInitRank comm 0x1 rank 0 nranks 2 cudaDev 0 busId 60 commId 0x1 {EVIL}",
    ]
    text = "\n".join(f"h{EVIL}:1:1 [0] NCCL {kind} {line}" for line in lines for kind in KINDS)
    place = tmp_path / "job.log"
    place.write_text(text)
    for words in ((), ("--json",)):
        clean_output(gputop("log", str(place), *words))
    clean_output(gputop("log", str(tmp_path / EVIL.replace("\0", ""))))


KINDS = ("INFO", "WARN")


@pytest.mark.parametrize("name", [*NAMES, *QUESTIONS])
def test_what_was_typed_may_be_hostile(name: str) -> None:
    evil = EVIL.replace("\0", "")
    for words in ((name, evil), (name, f"--{evil}"), (name, "--from", evil), (evil,)):
        done = gputop(*words)
        assert done.returncode in (3, 64)
        assert obeyed(done.stdout + done.stderr) == set()


def test_every_way_out_replaces_or_escapes(monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = Captured(), Captured()
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setattr("sys.stderr", err)
    print_json({EVIL: [EVIL]})
    warn(EVIL)
    overwrite(EVIL)
    assert json.loads(out.text()) == {EVIL: [EVIL]}
    assert obeyed(out.text() + err.text().replace("\r\x1b[K", "")) == set()


def _nested(inner: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.lists(inner) | st.dictionaries(st.text(max_size=3), inner)


@given(st.text())
def test_any_text_leaves_as_text(text: str) -> None:
    assert obeyed(harmless(text)) == set()
    assert len(harmless(text)) == len(text)


@given(
    st.dictionaries(st.text(st.characters(codec="utf-8")), st.text(st.characters(codec="utf-8")))
)
def test_any_document_comes_back_from_its_escapes(document: dict[str, str]) -> None:
    text = json_text(document)
    assert obeyed(text) == set()
    assert json.loads(text) == document


def test_what_a_terminal_obeys_or_hides_is_never_printable() -> None:
    # harmless and json_text look no further at what Python calls printable.
    printable = "".join(filter(str.isprintable, map(chr, range(0x110000))))
    assert characters._IN_BLOCKS.search(printable) is None


@given(st.recursive(st.text(max_size=9) | st.floats(allow_nan=False), _nested, max_leaves=40))
def test_a_document_in_pieces_is_the_same(document: object) -> None:
    whole = json_text(document)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(characters, "PIECE", 12)
        assert "".join(json_pieces(document)) == whole


def test_names_that_are_no_utf8_have_a_replacement_mark_in_documents(tmp_path: Path) -> None:
    sound = gputop("snapshot", "--demo", "hgx-h100-8").stdout
    named = tmp_path / os.fsdecode(b"\xff.json")
    named.write_text(sound)
    for words in (("snapshot",), ("explain", "--json"), ("check", "--quick", "--json")):
        done = gputop(*words, "--from", str(named))
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["source"] == ["\ufffd.json"]
    value = os.fsdecode(b"NCCL_IB_HCA=\xff")
    done = gputop("explain", "--json", "--demo", "hgx-h100-8", "--set", value)
    assert json.loads(done.stdout)["environment"]["NCCL_IB_HCA"] == "\ufffd"


def test_all_that_unicode_calls_control_or_format_is_known() -> None:
    found = {c for c in map(chr, range(0x110000)) if unicodedata.category(c) in OBEYED}
    assert [hex(ord(c)) for c in sorted(found) if not HOSTILE.match(c)] == []
    letters = "".join(map(chr, range(0x20, 0x7F))) + "·–…×°µ›•●▶→✓━╭│漢é\xa0"
    assert HOSTILE.search(letters) is None

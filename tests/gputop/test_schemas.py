"""Every document is as its schema says, by a foreign validator; the first ones stay readable."""

from __future__ import annotations

import copy
import gzip
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import jsonschema
import pytest

import gputop
from gputop import schemas
from gputop.answers.question import Reply
from gputop.commands.fleet.made_up import make_fleet
from gputop.commands.schema import FOLDER, file_of, stale, write_all
from gputop.exits import USAGE, Exit
from gputop.topology.model.severity import OpenWord
from gputop.topology.recorded.demos.demo import names
from gputop.topology.toml import tomllib
from tests.grid import share, turns
from tests.support.command import gputop_here
from tests.support.places import RECORDINGS, ROOT

FIRST = RECORDINGS / "documents-1"
SNAPSHOT = str(FIRST / "snapshot.json.gz")
OF_A_NODE = (
    ("check", "--quick"),
    ("check", "--quick", "--gpus", "0"),
    ("explain",),
    ("explain", "0", "1", "--nodes", "2", "--set", "NCCL_ALGO=Ring"),
    ("explain", "--against", "2.30.7"),
    ("flags",),
    ("flags", "NCCL_P2P_LEVEL", "--set", "NCCL_P2P_LEVEL=SYS"),
    ("jobs",),
    ("topo",),
    ("snapshot",),
    ("probe", "p2p"),
    ("probe", "p2p", "host"),
)
OF_NO_NODE = (
    ("check", "--list"),
    ("doctor",),
    ("fleet", "--demo"),
    ("fleet", str(FIRST)),
    ("fleet", "plan", str(FIRST), "--nodes", "g[1-4]"),
    ("log", str(RECORDINGS / "nccl-logs" / "h200-default.log.gz")),
    ("log", str(RECORDINGS / "flight" / "sizes_0")),
    ("probe", "--list"),
    ("probe", "--history"),
    ("rule", "nvlink-down"),
    ("rules",),
    ("explain", "--from", "no/such/file"),
)
RECORDED = (
    "hgx-h200-4gpu-live/snapshot.json",
    "hgx-h200-4gpu-vm",
    "nccl-topologies/real.xml",
    "mi300x-amdsmi-7/amdsmi.json",
    "amd-public/mi300a-4-showtopo.txt",
    "kfd/mi210-8.tar.gz",
)


@pytest.fixture(scope="module", autouse=True)
def own_documents() -> None:
    """Tests before these may have asked while classes of their own stood among the answers."""
    schemas.documents.cache_clear()


@cache
def validator(tag: str) -> Any:
    schema = schemas.schema_of(tag)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def assert_valid(text: str) -> str:
    document = json.loads(text)
    wrong = next(validator(document["schema"]).iter_errors(document), None)
    assert wrong is None, f"{document['schema']}: {wrong.json_path}: {wrong.message[:300]}"
    return str(document["schema"])


@pytest.mark.parametrize(("demo", "command"), turns(names(), OF_A_NODE))
def test_the_json_of_a_demo_is_as_its_schema_says(demo: str, command: tuple[str, ...]) -> None:
    assert_valid(gputop_here(*command, "--json", "--demo", demo).stdout)


@pytest.mark.parametrize("command", share([(one,) for one in OF_NO_NODE], 3))
def test_so_is_what_is_about_no_node(command: tuple[str, ...]) -> None:
    assert_valid(gputop_here(*command, "--json").stdout)


def test_so_is_what_changed_in_a_fleet(tmp_path: Path) -> None:
    folders = [tmp_path / name / "checks" for name in ("before", "now")]
    for folder in folders:
        folder.parent.mkdir()
        make_fleet(folder)
    for path in sorted(folders[1].glob("g?.json")):
        path.unlink()
    for one, other in (folders, folders[::-1]):
        done = gputop_here("fleet", str(one), "--since", str(other), "--json")
        assert_valid(done.stdout)
        change = json.loads(done.stdout)["change"]
        assert change["came"] or change["gone"]
        assert change["worse"] or change["better"] or change["other"]


@pytest.mark.parametrize(("source", "command"), turns(RECORDED, OF_A_NODE[:-2]))
def test_so_is_the_json_of_a_recording(source: str, command: tuple[str, ...]) -> None:
    done = gputop_here(*command, "--json", "--from", str(RECORDINGS / source))
    assert_valid(done.stdout)


@pytest.mark.parametrize("demo", share(names(), 3))
def test_so_are_the_answers_of_the_library(demo: str) -> None:
    node = gputop.demo(demo)
    said: list[Reply] = [node.p2p(0, 1), node.nic_of(0), node.numa_of(0)]
    said += [node.env_for(library) for library in ("nccl", "ucx", "nvshmem", "gloo")]
    for answer in said:
        assert_valid(gputop.as_json(answer))


def test_a_document_that_is_not_as_its_schema_says_is_found() -> None:
    document = json.loads(gputop_here("topo", "--json", "--demo", "pcie-l40s-8").stdout)
    document["nodes"][0]["kind"] = 5
    with pytest.raises(AssertionError, match="kind"):
        assert_valid(json.dumps(document))


def test_the_policy_of_the_recipes_is_as_its_schema_says() -> None:
    policy = tomllib.loads((ROOT / "recipes" / "check.toml").read_text("utf-8"))
    assert list(validator(schemas.POLICY).iter_errors(policy)) == []
    assert list(validator(schemas.POLICY).iter_errors({**policy, "expects": "dgx-h100"})) != []


# Version 1.
def test_the_first_documents_are_still_valid() -> None:
    tags = set()
    for path in sorted(FIRST.iterdir()):
        data = path.read_bytes()
        tags.add(assert_valid((gzip.decompress(data) if path.suffix == ".gz" else data).decode()))
    known = ("snapshot", "check", "fleet-plan", "net")
    assert tags == {f"gputop.{name}/1" for name in known}


def test_the_first_snapshot_and_the_first_check_are_still_read(tmp_path: Path) -> None:
    for name in ("snapshot.json.gz", "check.json.gz"):
        node = gputop.load(FIRST / name)
        assert [gpu.name for gpu in node.gpus] == ["NVIDIA H200"] * 2
        assert node.check().exit_code == 0
    later = tmp_path / "later.json"
    text = gputop.as_json(gputop.load(SNAPSHOT))
    later.write_text(json.dumps({**json.loads(text), "taken_at": 4e9}))
    done = gputop_here("check", "--quick", "--from", str(later), "--since", SNAPSHOT)
    assert done.returncode == 0, done.stderr


def test_the_first_record_of_a_fleet_is_still_read(tmp_path: Path) -> None:
    for name in ("check.json.gz", "net.json"):
        shutil.copy(FIRST / name, tmp_path)
    told = json.loads(gputop_here("fleet", str(tmp_path), "--json").stdout)
    assert [host["state"] for host in told["hosts"].values()].count("healthy") == 1
    assert told["links"]["looks"] == 1


def test_the_first_plan_is_still_read() -> None:
    done = gputop_here("fleet", "plan", str(FIRST), "--nodes", "g[1-4]", "--json")
    assert json.loads(done.stdout)["round"] == 2


# The files, and what a version may change.
def test_the_files_are_those_of_the_records() -> None:
    # In a process of its own: a document is described by all classes that a process has made.
    code = (
        "import sys; from pathlib import Path; from gputop.commands.schema import stale; "
        "print(*stale(Path(sys.argv[1])))"
    )
    command = [sys.executable, "-c", code, str(ROOT / FOLDER)]
    changed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert changed == [], "python -m gputop.commands.schema writes them, or says what breaks"
    left = {path.name for path in (ROOT / FOLDER).iterdir()}
    assert left >= {file_of(tag) for tag in schemas.documents()}


def free(part: Any, at: str) -> Iterator[str]:
    """Where a schema allows any object."""
    if isinstance(part, list):
        for one in part:
            yield from free(one, at)
    if not isinstance(part, dict):
        return
    if part.get("type") == "object" and not part.keys() & {"properties", "additionalProperties"}:
        yield at
    for name, inner in part.items():
        if name != "default":
            yield from free(inner, at if name in WORDS else f"{at}/{name}")


WORDS = ("properties", "items", "anyOf", "$defs", "prefixItems", "additionalProperties")


def test_what_a_document_holds_is_said() -> None:
    found = {place for tag in schemas.documents() for place in free(schemas.schema_of(tag), "")}
    assert found == {
        # Each probe has remarks of its own.
        "/Measurement/details", "/JudgedMeasurement/details", "/ProbeNote/details",
    }  # fmt: skip


def test_a_version_may_gain_a_field_and_lose_none(tmp_path: Path) -> None:
    tag = "gputop.numa/1"
    write_all(tmp_path)
    file = tmp_path / file_of(tag)
    schema = json.loads(file.read_text())
    part = schema["$defs"]["NumaAnswerDocument"]
    del part["properties"]["cpus"]
    part["required"].remove("cpus")
    file.write_text(json.dumps(schema))
    write_all(tmp_path)
    assert list(stale(tmp_path)) == []
    part["properties"] |= {"cpus": {"type": "string"}, "speed": {"type": "number"}}
    file.write_text(json.dumps(schema))
    with pytest.raises(Exit, match=r"gputop\.numa/1 needs a new version: /speed: is gone"):
        write_all(tmp_path)


@pytest.mark.parametrize(
    ("at", "change", "found"),
    [
        (("state",), {"enum": ["a"]}, "b may not be said any more"),
        (("state",), {"enum": ["a", "b", "c"]}, ""),
        (("count",), {"type": "string"}, "type integer became string"),
        (("rows", "items"), {"type": "object", "properties": {}}, "/rows/*/name: is gone"),
        (("either", "anyOf"), [{"type": "integer"}], "a choice is gone"),
    ],
)
def test_what_breaks_a_version(at: tuple[str, ...], change: object, found: str) -> None:
    row = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    old: dict[str, Any] = {
        "type": "object",
        "properties": {
            "state": {"enum": ["a", "b"]},
            "count": {"type": "integer"},
            "rows": {"type": "array", "items": {"$ref": "#/$defs/Row"}},
            "either": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        },
        "required": ["count"],
        "$defs": {"Row": row},
    }
    new = copy.deepcopy(old)
    place = new["properties"]
    for name in at[:-1]:
        place = place[name]
    place[at[-1]] = change
    assert schemas.breaks(old, old) == ()
    assert "; ".join(schemas.breaks(old, new))[-len(found) :] == found
    assert bool(schemas.breaks(old, new)) == bool(found)


def test_classes_of_others_change_no_schema() -> None:
    """Of equal names, of a plugin, or left by a module whose import failed."""
    before = {tag: schemas.schema_of(tag) for tag in schemas.documents()}

    class ExplainAnswer(Reply, frozen=True, kw_only=True, tag="gputop.explain/1"):
        hidden: ClassVar[tuple[str, ...]] = ("source",)
        head: str = ""

    class Severity(OpenWord):
        MILD = "mild"

    schemas.documents.cache_clear()
    assert {ExplainAnswer.__name__, Severity.__name__} <= before["gputop.explain/1"]["$defs"].keys()
    assert {tag: schemas.schema_of(tag) for tag in schemas.documents()} == before


def test_a_word_that_may_grow_is_any_text() -> None:
    parts = schemas.schema_of("gputop.snapshot/1")["$defs"]
    ours = [word for word in OpenWord.__subclasses__() if word.__module__.startswith("gputop.")]
    open_words = {word.__name__ for word in ours} & parts.keys()
    assert open_words
    assert all(parts[name]["type"] == "string" for name in open_words)


def test_the_command_prints_one_and_lists_all() -> None:
    listed = gputop_here("schema").stdout.splitlines()
    tags = [word for line in listed for word in line.split() if word.startswith("gputop.")]
    assert tags == list(schemas.documents())
    assert max(map(len, listed)) <= 80
    assert json.loads(gputop_here("schema", "check").stdout)["$id"] == "gputop.check/1"
    assert schemas.tag_of("gputop.check/1") == "gputop.check/1"
    wrong = gputop_here("schema", "chekc")
    assert wrong.returncode == USAGE
    assert "check" in wrong.stderr

"""`gputop diff A B`: what it takes, what it prints, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from gputop.__main__ import run
from gputop.topology.model.snapshot import NodeSnapshot, encode
from tests.support.checked import saved
from tests.support.rule_cases import base, cases

H100, SICK = "hgx-h100-8", "sick-h100-8"


def ended(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = run(["diff", *arguments])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def check_file(capsys: pytest.CaptureFixture[str], path: Path, *more: str) -> str:
    run(["check", "--quick", "-o", str(path), *more])
    capsys.readouterr()
    return str(path)


def test_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = ended(capsys, H100, "mi300x-8")
    assert code == 1
    assert " ".join(out.split()).startswith(
        "✗ Worse: another kind of machine, 8 × AMD Instinct MI300X in place of 8 × NVIDIA H100 "
        "80GB HBM3; all-reduce 1 GiB 473 GB/s (predicted) → 333 GB/s (predicted) "
        "demo hgx-h100-8 → demo mi300x-8: two kinds of machine; 8 × NVIDIA H100 80GB HBM3 → 8 × "
        "AMD Instinct MI300X; healthy → healthy "
        "Changed, and harmful ▼ all-reduce 1 GiB: 473 GB/s (predicted) → 333 GB/s (predicted) "
    )
    assert "• library: NCCL 2.28.9 → RCCL 2.22.3" in out.splitlines()


@pytest.mark.parametrize(
    ("pair", "code", "verdict"),
    [((H100, SICK), 1, "worse"), ((SICK, H100), 0, "better"), ((H100, H100), 0, "same")],
)
def test_the_document_and_the_exit_code(
    capsys: pytest.CaptureFixture[str], pair: tuple[str, str], code: int, verdict: str
) -> None:
    ended_with, out, _ = ended(capsys, *pair, "--json")
    found = json.loads(out)
    assert (ended_with, found["verdict"], found["schema"]) == (code, verdict, "gputop.diff/1")
    assert found["relation"] == "the same machine"
    ids = {"nvlink-down", "pcie-width"}
    assert {one["id"] for one in found["came"]} == (ids if verdict == "worse" else set())
    assert {one["id"] for one in found["gone"]} == (ids if verdict == "better" else set())


def test_saved_checks_without_a_snapshot(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    before = check_file(capsys, tmp_path / "a.json.gz", "--demo", H100)
    now = check_file(capsys, tmp_path / "b.json", "--demo", SICK)
    code, out, _ = ended(capsys, before, now, "--json")
    found = json.loads(out)
    assert code == 1
    assert {one["id"] for one in found["came"]} == {"nvlink-down", "pcie-width"}
    assert any("what the library decides" in one["what"] for one in found["uncompared"])
    assert {"NVLinks up of GPU3", "PCIe lanes of GPU3"} <= {one["what"] for one in found["changes"]}
    whole = check_file(capsys, tmp_path / "c.json", "--demo", SICK, "--snapshot", "--json")
    assert ended(capsys, now, whole)[0] == 0
    assert ended(capsys, before, whole)[0] == 1


def test_variables_of_saved_checks(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    paths = []
    for name, value in (("a", "0"), ("b", "1")):
        snapshot = base(f"demo {H100}")
        variable = {"name": "NCCL_DEBUG_SUBSYS", "value": value, "origin": "environment"}
        raw = {**msgspec.to_builtins(snapshot), "environment": [variable]}
        made = msgspec.convert(raw, NodeSnapshot)
        source = saved(made, tmp_path / f"{name}-snapshot.json")
        paths.append(check_file(capsys, tmp_path / f"{name}.json", "--from", source))
    found = json.loads(ended(capsys, *paths, "--json")[1])
    assert [(one["what"], one["before"], one["now"]) for one in found["changes"]] == [
        ("NCCL_DEBUG_SUBSYS", "0", "1")
    ]


def test_folders_and_texts(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name, demo in (("a", H100), ("b", SICK)):
        (tmp_path / name).mkdir()
        run(["topo", "--demo", demo])
        (tmp_path / name / "topo.txt").write_text(capsys.readouterr().out)
    code, out, _ = ended(capsys, str(tmp_path / "a"), str(tmp_path / "b"), "--json")
    assert code == 1
    found = json.loads(out)
    assert found["relation"] == "not known to be the same machine"
    assert [one["now"] for one in found["changes"] if one["severity"] == "slow"] == ["NV16"]


def test_without_a_second_this_machine_is_held_beside_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    node = base(f"demo {SICK}")
    monkeypatch.setattr("gputop.answers.diff.read_snapshot", lambda *_: node)
    found = json.loads(ended(capsys, H100, "--json")[1])
    assert found["now"]["name"] == "this machine"
    assert ended(capsys, H100, "-", "--json")[1] == ended(capsys, H100, "--json")[1]


@pytest.mark.parametrize(
    ("pair", "code", "said"),
    [
        (("-",), 64, "A and B are both this machine"),
        (("", H100), 64, "A is empty"),
        ((H100, "/no/such/file"), 64, "/no/such/file"),
        ((H100, "nul\0l"), 64, "nul"),
    ],
)
def test_what_is_refused(
    capsys: pytest.CaptureFixture[str], pair: tuple[str, ...], code: int, said: str
) -> None:
    ended_with, out, err = ended(capsys, *pair)
    assert (ended_with, out) == (code, "")
    assert said in err


def test_a_damaged_check_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    whole = Path(check_file(capsys, tmp_path / "a.json", "--demo", H100)).read_bytes()
    damaged = tmp_path / "b.json"
    for cut in range(0, len(whole), len(whole) // 7):
        damaged.write_bytes(whole[:cut])
        code, out, err = ended(capsys, H100, str(damaged))
        assert code in (3, 64), err
        assert not out


def test_the_weather_of_links_is_one_finding_everywhere(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (case,) = (one for one in cases() if one.name == "link-drain")
    assert case.earlier is not None
    told = "drain: NVLink 5 of GPU1 errs more than a healthy link does: 60 recoveries in 24 h"
    for name, snapshot in (("before", case.earlier), ("now", case.snapshot)):
        (tmp_path / f"{name}.json").write_bytes(encode(snapshot))
    before, now = (str(tmp_path / f"{name}.json") for name in ("before", "now"))
    code, out, _ = ended(capsys, before, now)
    assert code == 1
    assert told in " ".join(out.split())
    days = {"monday": ("--from", before), "tuesday": ("--from", now, "--since", before)}
    for name, day in days.items():
        (tmp_path / name).mkdir()
        code = run(["check", "--quick", *day, "-o", str(tmp_path / name / "g1.json")])
    assert code == 1
    capsys.readouterr()
    run(["fleet", str(tmp_path / "tuesday"), "--text", "--since", str(tmp_path / "monday")])
    assert "drain: NVLink 5 of GPU1" in " ".join(capsys.readouterr().out.split())

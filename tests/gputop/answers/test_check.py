"""`gputop check` as it is typed: verdicts, exit codes, JSON, recordings, wrong usage."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from gputop.checking.runs import all_rules
from gputop.topology.diagnosis import engine
from gputop.topology.diagnosis.rule import Rule
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.recorded.demos import demo
from tests.support.places import RECORDINGS, TESTS

from ...support.checked import checked, saved
from ...support.command import gputop, gputop_here
from ...support.rule_cases import SickCase, base, cases, edited, smoke

FAKES = str(TESTS / "fakes")
LIVE = str(RECORDINGS / "hgx-h200-4gpu-live" / "snapshot.json")
KEYS = {
    "schema", "gputop", "source", "assumptions", "node", "taken_at", "mode", "expect",
    "expect_unconfirmed", "policy",
    "gpus", "measured", "verdict", "exit_code", "findings", "silenced", "examined",
    "not_examined", "elapsed_seconds", "counts", "evidence_missing", "fleet",
}  # fmt: skip
FINDING_KEYS = {
    "id", "peers", "severity", "title", "devices", "evidence", "disproof", "consequence", "fix",
    "sources",
}  # fmt: skip
SMALL = next(case for case in cases() if case.name == "bar1-256m")


@pytest.fixture(autouse=True)
def no_policy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nobody's check.toml counts."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr("gputop.checking.policy.SYSTEM", tmp_path / "none.toml")


@pytest.mark.parametrize("name", [name for name in demo.names() if not name.startswith("sick")])
def test_a_healthy_demo_is_0(capsys: pytest.CaptureFixture[str], name: str) -> None:
    done = checked(capsys, "--quick", "--json", "--demo", name)
    assert done.code == 0, done.out
    document = done.document
    assert set(document) == KEYS
    assert document["schema"] == "gputop.check/1"
    assert document["verdict"] == "healthy"
    assert document["source"] == [f"demo {name}"]
    assert {row["severity"] for row in document["findings"]} <= {"notice", "by-design"}


def test_the_recorded_machine_is_healthy(capsys: pytest.CaptureFixture[str]) -> None:
    done = checked(capsys, "--quick", "--json", "--from", LIVE)
    assert done.code == 0, done.out
    document = done.document
    assert document["mode"] == "quick"
    assert len(document["gpus"]) == 4
    assert document["examined"]
    assert not set(document["examined"]) & set(document["not_examined"])
    known = {rule.id for rule in engine.load() if not rule.extra}
    assert set(document["examined"]) | set(document["not_examined"]) == known


@pytest.mark.parametrize("case", smoke(), ids=lambda case: case.name)
def test_a_sick_machine_gives_its_exit_code(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, case: SickCase
) -> None:
    arguments = ["--quick", "--json", "--from", saved(case.snapshot, tmp_path / "node.json")]
    if case.earlier is not None:
        arguments += ["--since", saved(case.earlier, tmp_path / "earlier.json")]
    if case.reference is not None:
        sister = case.reference.sister
        arguments += [
            "--expect", case.against if sister is None else saved(sister, tmp_path / "sister.json"),
        ]  # fmt: skip
    done = checked(capsys, *arguments)
    assert done.code == case.exit == done.document["exit_code"]
    assert done.ids == set(case.whole)
    for finding in done.document["findings"]:
        assert set(finding) == FINDING_KEYS
        for fix in finding["fix"]:
            assert set(fix) == {"text", "command", "needs_root"}
        for item in finding["evidence"]:
            assert set(item) == {"what", "value", "source"}


def test_the_sick_demo_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    done = checked(capsys, "--quick", "--json", "--demo", "sick-h100-8", "--expect", "dgx-h100")
    assert done.code in (1, 2)
    assert done.document["expect"] == "DGX H100"
    sick = base("demo sick-h100-8").machine.gpus[3].address
    loud = [row for row in done.document["findings"] if row["severity"] in ("slow", "broken")]
    assert any(sick in finding["devices"] for finding in loud)


def test_an_empty_machine_is_3(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = saved(NodeSnapshot(taken_at=1.0), tmp_path / "empty.json")
    done = checked(capsys, "--quick", "--json", "--from", path)
    assert done.code == 3
    assert done.document["verdict"] == "cannot tell"
    assert done.ids == {engine.NOTHING}


@pytest.mark.parametrize("level", [("--quick",), (), ("--full",)])
def test_a_machine_without_a_driver_is_3(level: tuple[str, ...]) -> None:
    done = gputop("check", *level, PYTHONPATH=FAKES, GPUTOP_FAKE_NVML="absent")
    assert done.returncode == 3
    assert "no GPU to examine" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("? cannot tell")
    assert "nothing measured" in done.stdout


def test_picking_gpus_on_a_machine_without_any_is_an_error() -> None:
    done = gputop("check", "--gpus", "0", PYTHONPATH=FAKES, GPUTOP_FAKE_NVML="absent")
    assert done.returncode == 3
    assert done.stdout == ""


def test_people_get_the_verdict_first_and_one_line_a_finding(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = saved(SMALL.snapshot, tmp_path / "node.json")
    done = checked(capsys, "--quick", "--from", path, "--ignore", "unexpected-gpus")
    lines = done.out.splitlines()
    document = checked(capsys, "--quick", "--json", "--from", path).document
    assert len(lines) == len(document["findings"]) + 1
    # nvlink-errors, pcie-replays and rank-memory-grows compare two readings: one look has none.
    skipped = document["counts"]["not_examined"] - 3
    assert f"{skipped} skipped (data unavailable)" in lines[0]
    assert any("[bar1-small]" in line and line.startswith("• notice") for line in lines)
    assert max(map(len, lines)) <= 80
    assert "healthy" in lines[0]
    printed = checked(capsys, "--quick", "--verbose", "--from", path).out
    assert "256 MiB for" in printed
    assert max(map(len, printed.splitlines())) <= 80


def test_a_silenced_rule_is_shown_with_its_reason(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = saved(SMALL.snapshot, tmp_path / "node.json")
    wanted = ("--quick", "--from", path, "--ignore", "bar1-small=old boards")
    document = checked(capsys, *wanted, "--json").document
    (silenced,) = document["silenced"]
    assert (silenced["id"], silenced["reason"]) == ("bar1-small", "old boards")
    assert set(silenced) == FINDING_KEYS | {"reason"}
    assert "silenced" in checked(capsys, *wanted).out
    assert "(old boards)" in checked(capsys, *wanted).out


def test_chosen_gpus_alone_are_examined(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = saved(SMALL.snapshot, tmp_path / "node.json")
    done = checked(capsys, "--quick", "--json", "--from", path, "--gpus", "2,3")
    assert "bar1-small" not in done.ids
    assert len(done.document["gpus"]) == 2
    assert "bar1-small" in checked(capsys, "--json", "--from", path, "--gpus", "1").ids


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("--quick", "--full"), "not both"),
        (("--quick", "--force"), "--quick"),
        (("--full", "--from", LIVE), "recording"),
        (("--force", "--from", LIVE), "recording"),
        (("--from", LIVE, "--demo", "hgx-h100-8"), "not both"),
        (("--demo", "no-such"), "no demo"),
        (("--demo", "hgx-h100-8", "--expect", "nothing-like-it"), "no reference node"),
        (("--demo", "hgx-h100-8", "--expect", ""), "needs a name"),
        (("--demo", "hgx-h100-8", "--expect", "x" * 5000), "no reference node"),
        (("--demo", "hgx-h100-8", "--expect", "/nowhere/node.json"), "no such file"),
        (("--demo", "hgx-h100-8", "--since", "/nowhere/node.json"), "no such file"),
        (("--demo", "hgx-h100-8", "--ignore", "bar1-smal"), "did you mean bar1-small"),
        (("--demo", "hgx-h100-8", "--config", "/nowhere.toml"), "no such file"),
        (("--demo", "hgx-h100-8", "--gpus", "9"), "no GPU"),
        (("--demo", "hgx-h100-8", "--junit", "/nowhere/x.xml"), "No such file"),
    ],
)
def test_wrong_usage_is_64_and_one_line(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], word: str
) -> None:
    done = checked(capsys, *arguments)
    assert done.code == 64, done
    assert word in done.err
    assert done.out == ""
    assert len(done.err.splitlines()) <= 2
    assert "Traceback" not in done.err


def test_default_on_a_recording_measures_nothing_and_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    done = checked(capsys, "--json", "--from", LIVE)
    assert done.code == 0
    assert done.document["mode"] == "quick"
    assert done.document["measured"] == []
    assert any("nothing measured" in text for text in done.document["assumptions"])
    assert "not-measured" not in done.document["examined"]


def test_a_prediction_that_fails_is_reported_and_the_rest_goes_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object, **named: object) -> None:
        raise ZeroDivisionError("by purpose")

    monkeypatch.setattr("gputop.topology.flags.values.predicting.predict", fail)
    for more in ((), ("--gpus", "0,1")):
        done = checked(capsys, "--json", "--demo", "hgx-h100-8", *more)
        assert done.code == 3
        (row,) = [row for row in done.document["findings"] if row["id"] == engine.FAILED]
        assert "by purpose" in row["evidence"][0]["value"]
        assert "bar1-small" in done.document["examined"]


def test_a_rule_that_raises_is_3_and_not_a_crash(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def bad(case: object) -> None:
        raise RuntimeError("\x1b[31mby purpose")

    rule = Rule(id="bad", title="x", evidence="x", disproof="x", sources=("x",), check=bad)
    monkeypatch.setattr("gputop.checking.runs.load", lambda: (rule, *engine.load()))
    done = checked(capsys, "--demo", "hgx-h100-8", "-v")
    assert done.code == 3
    assert "rule bad failed" in done.out
    assert "\x1b" not in done.out


def test_hostile_names_stay_text(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    evil = "\x1b]0;owned\x07[red]\u202egpu\n\n✓ healthy"
    node = edited(
        base("demo hgx-h100-8"),
        [
            {"path": "machine.gpus[0].name", "value": evil},
            {"path": "machine.host.hostname", "value": evil},
        ],
    )
    path = saved(node, tmp_path / "node.json")
    report = tmp_path / "junit.xml"
    done = checked(
        capsys, "--from", path, "--expect", "dgx-h200", "-v", "--junit", str(report)
    )  # fmt: skip
    assert "\x1b" not in done.out + done.err
    assert "\u202e" not in done.out + done.err
    assert sum(line.startswith("✓") for line in done.out.splitlines()) <= 1
    import xml.etree.ElementTree as Xml

    Xml.fromstring(report.read_bytes())


def test_a_terminal_without_utf8_gets_signs_of_ascii() -> None:
    done = gputop("check", "--demo", "hgx-h100-8", PYTHONIOENCODING="latin-1", PYTHONUTF8="0")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].startswith("+ healthy")


def test_rules_are_listed_with_what_they_need(capsys: pytest.CaptureFixture[str]) -> None:
    done = checked(capsys, "--list")
    assert done.code == 0
    assert "bar1-small\n    BAR1 windows" in done.out
    assert "minimum_share = 0.9" in done.out
    assert max(map(len, done.out.splitlines())) <= 80
    listed = checked(capsys, "--list", "--json").document["rules"]
    assert [row["id"] for row in listed][: len(engine.load())] == [
        rule.id for rule in engine.load()
    ]


def test_more_verbose_words_are_no_more_findings(capsys: pytest.CaptureFixture[str]) -> None:
    one = checked(capsys, "--demo", "sick-h100-8")
    other = checked(capsys, "--demo", "sick-h100-8", "--verbose")
    assert one.code == other.code == 1
    assert one.out.splitlines()[0] == other.out.splitlines()[0]
    assert one.out.count(" [") == other.out.count(" [")
    assert "--verbose" in one.err
    assert "--verbose" not in other.err


def test_a_device_of_no_known_model_is_no_crash(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    node = base("demo pcie-l40s-8")
    gpus = tuple(msgspec.structs.replace(gpu, name=None, pci_id=None) for gpu in node.machine.gpus)
    machine = msgspec.structs.replace(node.machine, gpus=gpus)
    path = saved(msgspec.structs.replace(node, machine=machine), tmp_path / "node.json")
    done = checked(capsys, "--json", "--from", path, "--expect", "pcie-l40s-8")
    assert done.code in (0, 1, 2)
    assert engine.FAILED not in done.ids


@pytest.mark.parametrize("name", demo.names())
def test_a_demo_is_measured_by_simulation_and_its_verdict_stays(
    capsys: pytest.CaptureFixture[str], name: str
) -> None:
    read = checked(capsys, "--quick", "--json", "--demo", name)
    done = checked(capsys, "--json", "--demo", name)
    assert (done.code, done.document["verdict"]) == (read.code, read.document["verdict"])
    assert done.ids == read.ids
    assert done.document["mode"] == "default"
    assert {run["status"] for run in done.document["measured"]} == {"finished"}
    assert any(note.startswith("Simulated") for note in done.document["assumptions"])
    fleet = done.document["fleet"]
    assert fleet["figures"]
    assert not read.document["fleet"]["figures"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("hgx-h100-8", "compared with DGX H100: gpus, links, wiring and network; all as expected"),
        ("sick-h100-8", "compared with DGX H100: gpus, links, wiring and network"),
        ("pcie-l40s-8", ""),
    ],
)
def test_an_expectation_says_what_was_compared(name: str, said: str) -> None:
    done = gputop_here("check", "--quick", "--demo", name, "--expect", "hgx-h100-8")
    second = done.stdout.splitlines()[1]
    assert second == said if said else "all as expected" not in second


def test_what_rules_look_for_is_written_alike() -> None:
    for rule in all_rules():
        first = rule.title.split()[0]
        name = any(letter.isupper() or letter.isdigit() for letter in first[1:])
        assert name or not first[0].isupper(), f"{rule.id}: {rule.title}"

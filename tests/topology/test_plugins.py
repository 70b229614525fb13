"""Plugins: found, refused with one sentence, never from an untrusted place, never too early."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gputop.topology import plugins
from gputop.topology.diagnosis.engine import FAILED, load
from gputop.topology.hardware.specs import own_skus, skus
from gputop.topology.plugins import PLUGINS, Plugin, PluginGroup, Plugins, trusted_folders
from gputop.topology.recorded.load import LoadError
from gputop.topology.recorded.load import load as load_files
from gputop.topology.sources.plugged import _Guarded
from tests.support.places import ROOT
from tests.support.plugins_made import FINDS, RULE, distribution, example, rule_plugin, use
from tests.support.rule_cases import base, diagnosed


def things(plugin: Plugin, thing: Any) -> Iterator[Any]:
    yield thing


def told(found: Plugins = PLUGINS) -> dict[str, str]:
    """Name of each plugin -> why it is not used."""
    return {plugin.name: why for plugin, why in found.listed()}


def ids() -> set[str]:
    return {finding.id for finding in diagnosed(base("demo hgx-h100-8")).findings}


def test_the_example_adds_a_rule_a_format_and_a_figure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    example(tmp_path / "site")
    use(monkeypatch, tmp_path / "site")
    assert load()[-1].id == "example-power-of-two"
    three = [gpu.address for gpu in base("demo hgx-h100-8").machine.gpus[:3]]
    found = diagnosed(base("demo hgx-h100-8"), gpus=three)
    assert "example-power-of-two" in {finding.id for finding in found.findings}
    (tmp_path / "list").write_text("== lsgpu ==\n0000:0a:00.0\n")
    (gpu,) = load_files([str(tmp_path / "list")]).snapshot.machine.gpus
    assert gpu.address == "0000:0a:00.0"
    added = skus()["H200-SXM"].figures[len(own_skus()["H200-SXM"].figures) :]
    assert [figure.quantity for figure in added] == ["example_copy"]
    assert "gputop-example 1.0" in added[0].source
    assert set(told().values()) == {""}


def test_each_that_cannot_be_used_is_one_sentence_and_nothing_else_is_lost(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(plugins, "LOAD_SECONDS", 0.3)
    made = {
        "made_raises": "raise RuntimeError('a\\x1b[31mb\\nc')",
        "made_leaves": "raise SystemExit(3)",
        "made_exits": "import os; os._exit(0)",
        "made_becomes": "import os; os.execlp('true', 'true')",
        "made_sleeps": "import time; time.sleep(20)",
        "made_number": "RULES = 7",
    }
    for name, text in made.items():
        entry = {"rules": {name[5:]: f"{name}:RULES"}}
        distribution(tmp_path / "site", name, entry, {name: text})
    distribution(tmp_path / "site", "gone", {"rules": {"gone": "made_gone:RULES"}})
    distribution(tmp_path / "site", "bad\x1b[2Jname", {"rules": {"x\u202ey": "made_gone:RULES"}})
    rule_plugin(tmp_path / "site", "fine")
    use(monkeypatch, tmp_path / "site")
    said: list[str] = []
    PLUGINS.hear(said.append)
    begun = time.monotonic()
    assert "rule-of-fine" in ids()
    assert time.monotonic() - begun < 5
    why = told()
    assert why.pop("fine") == ""
    assert "RuntimeError" in why["raises"]
    assert "SystemExit" in why["leaves"]
    assert "it called os._exit" in why["exits"]
    assert "it called os.execv" in why["becomes"]
    assert "not imported within 0.3 s" in why["sleeps"]
    assert "No module named" in why["gone"]
    assert all(why.values())
    assert len(said) == len(why) == 8
    assert all(line.isprintable() for line in (*said, *why))
    assert ids() >= {"rule-of-fine"}
    assert len(said) == 8, "nothing is said twice"


@pytest.mark.parametrize(
    "leave",
    [
        "os._exit(0)",
        "os.execv('/bin/true', ['true'])",
        "os.kill(os.getpid(), 9)",
        "raise SystemExit",
        "raise KeyboardInterrupt",
        "raise GeneratorExit",
    ],
)
def test_a_rule_that_would_end_the_process_makes_no_all_clear(leave: str, tmp_path: Path) -> None:
    rule_plugin(tmp_path / "site", "leaver", f"import os; {leave}")
    rule_plugin(
        tmp_path / "site", "forker", f"import os\n    os.fork() or os._exit(0)\n    {FINDS}"
    )
    ended = subprocess.run(
        [sys.executable, "-m", "gputop", "check", "--quick", "--demo", "sick-h100-8"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(tmp_path / "site")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 1
    assert "nvlink-down" in ended.stdout
    assert "rule-of-forker" in ended.stdout
    assert "leaver of leaver 1.0: " in ended.stderr
    why = leave.removeprefix("raise ")
    assert ("which would have ended gputop" if "(" in leave else why) in ended.stderr


def test_words_that_are_no_severities_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = RULE.format(body=FINDS, id="loud").replace("extra=True", 'severities=("loud",)')
    group = {"rules": {"loud": "made_loud:RULES"}}
    distribution(tmp_path / "site", "loud", group, {"made_loud": text})
    use(monkeypatch, tmp_path / "site")
    assert "gpu-lost" in [rule.id for rule in load()]
    assert told() == {"loud": "the severities of the rule loud are none"}


def test_an_endless_row_of_rules_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    group = {"rules": {"endless": "made_endless:RULES"}}
    body = "import itertools\nRULES = itertools.count()"
    distribution(tmp_path / "site", "endless", group, {"made_endless": body})
    use(monkeypatch, tmp_path / "site")
    assert "gpu-lost" in [rule.id for rule in load()]
    assert told() == {"endless": "more than 1000 at once"}


def test_where_no_thread_can_be_started_nothing_else_is_lost(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    rule_plugin(tmp_path / "site", "fine")
    use(monkeypatch, tmp_path / "site")
    monkeypatch.setattr(threading.Thread, "start", start)
    assert "gpu-lost" in [rule.id for rule in load()]
    assert [why.partition(" within")[0] for why in told().values()] == ["not imported"]


def test_of_two_of_a_name_the_first_stays_and_ours_always_does(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rule_plugin(tmp_path / "site", "ours", rule="gpu-lost")
    rule_plugin(tmp_path / "site", "second", rule="rule-of-first")
    rule_plugin(tmp_path / "site", "first")
    same = {"rules": {"first": "made_second:RULES"}}
    distribution(tmp_path / "site", "zlast", same)
    figures = 'FIGURES = {"H200-SXM": [{"quantity": "hbm_copy", "kind": "typical", "measured": 9e9,'
    figures += '"unit": "GB/s", "source": "x"}], "H999": []}'
    group = {"figures": {"f": "made_figures:FIGURES"}}
    distribution(tmp_path / "site", "figures", group, {"made_figures": figures})
    use(monkeypatch, tmp_path / "site")
    names = [rule.id for rule in load()]
    assert names.count("gpu-lost") == names.count("rule-of-first") == 1
    known = {one.quantity for one in own_skus()["H200-SXM"].figures}
    assert "hbm_copy" not in known or skus()["H200-SXM"] == own_skus()["H200-SXM"]
    why = told()
    assert why["ours"] == "there is a rule gpu-lost already, which stays"
    assert why["second"]
    assert [one for plugin, one in PLUGINS.listed() if plugin.distribution == "zlast"] == [
        "the name is taken: first has it, which stays"
    ]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("raise ValueError('no')", "ValueError: no"),
        ("return [1, 2]", "something else than findings"),
        ("import time; time.sleep(20)", "no answer within 0.1 s"),
        ("return 7", "TypeError"),
        ("import itertools; return itertools.count()", "more than 1000 at once"),
    ],
)
def test_a_rule_that_fails_when_it_is_asked_fails_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, body: str, why: str
) -> None:
    rule_plugin(tmp_path / "site", "bad", body)
    rule_plugin(tmp_path / "site", "fine")
    use(monkeypatch, tmp_path / "site")
    late = plugins.Plugins.asked
    monkeypatch.setattr(PLUGINS, "asked", lambda question: late(question, 0.1))
    before = threading.active_count()
    for _ in range(3):
        found = ids()
        assert "rule-of-fine" in found
        assert FAILED not in found
        assert "rule-of-bad" not in found
    assert why in told()["bad"]
    assert threading.active_count() <= before + 1, "it is asked once"


def test_a_format_that_fails_is_no_format(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = """
from gputop.topology.model.format import Format
def bad(*given):
    raise OSError("x")
R = Format(id="r", recognises=bad, parse=bad)
P = Format(id="p", recognises=lambda head, path: head.startswith(b"PPP"), parse=bad)
"""
    group = {"formats": {"r": "made_formats:R", "p": "made_formats:P"}}
    distribution(tmp_path / "site", "formats", group, {"made_formats": text})
    use(monkeypatch, tmp_path / "site")
    (tmp_path / "file").write_text("PPP\n")
    with pytest.raises(LoadError, match="broken p: OSError: x"):
        load_files([str(tmp_path / "file")])
    assert told() == {"r": "OSError: x", "p": "OSError: x"}


def test_nothing_comes_from_the_current_folder_or_an_open_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    here, open_, named, good = (tmp_path / name for name in ("here", "open", "named", "good"))
    for folder in (here, open_, named, good):
        folder.mkdir()
    open_.chmod(0o777)
    monkeypatch.chdir(here)
    relative = f"../named:{good}"
    monkeypatch.setenv("PYTHONPATH", relative)
    monkeypatch.setattr(sys, "path", ["", *map(str, (here, open_, named, good))])
    assert trusted_folders() == [str(good)]


def test_a_module_that_lies_in_the_current_folder_is_not_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rule_plugin(tmp_path / "site", "shadowed")
    use(monkeypatch, tmp_path / "site")
    here = tmp_path / "here"
    here.mkdir()
    (here / "made_shadowed.py").write_text("raise RuntimeError('taken')")
    monkeypatch.chdir(here)
    monkeypatch.syspath_prepend(str(here))
    assert "rule-of-shadowed" not in {rule.id for rule in load()}
    assert "would come from" in told()["shadowed"]
    assert "made_shadowed" not in sys.modules


def test_nothing_is_looked_up_while_it_is_held_and_only_in_one_thread(tmp_path: Path) -> None:
    distribution(tmp_path, "held", {"themes": {"held": "json:loads"}})
    asked: list[str] = []

    def folders() -> list[str]:
        asked.append(threading.current_thread().name)
        return [str(tmp_path)]

    held = Plugins(folders)
    held.hold()
    assert held.of(PluginGroup.THEMES, things) == ()
    assert asked == []
    held.release(lambda: held.of(PluginGroup.THEMES, things))
    assert len(held.of(PluginGroup.THEMES, things)) == 1
    assert held.of(PluginGroup.RULES, things) == ()
    assert asked == ["MainThread"]


def test_a_reader_of_a_plugin_is_given_hints() -> None:
    class Read:
        wanted = 0

        def __call__(self) -> dict[str, int]:
            return {"wanted": self.wanted}

    guarded: Any = _Guarded(Read())
    assert hasattr(guarded, "wanted")
    assert not hasattr(guarded, "other")
    guarded.wanted = 7
    assert guarded() == {"wanted": 7}


def test_a_plugin_may_ask_for_tables_while_it_is_imported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = """
from gputop.topology.hardware.specs import skus
from gputop.topology.diagnosis.engine import load
FIGURES = {name: [] for name in skus()} if load() else {}
"""
    group = {"figures": {"asks": "made_asks:FIGURES"}}
    distribution(tmp_path / "site", "asks", group, {"made_asks": text})
    use(monkeypatch, tmp_path / "site")
    assert skus() == own_skus()
    assert told() == {"asks": ""}


def test_a_damaged_record_is_named_and_a_hidden_distribution_passed_over(tmp_path: Path) -> None:
    distribution(tmp_path / "a", "one", {"themes": {"one": "json:loads"}})
    distribution(tmp_path / "b", "one", {"themes": {"one": "json:dumps"}}, version="2.0")
    damaged = tmp_path / "b" / "damaged-1.0.dist-info"
    damaged.mkdir()
    (damaged / "entry_points.txt").write_bytes(b"[gputop.rules\n\xff\xfe = \x00")
    found = Plugins(lambda: [str(tmp_path / "a"), str(tmp_path / "b"), str(tmp_path / "none")])
    told: list[str] = []
    found.hear(told.append)
    assert [plugin.distribution for plugin, _ in found.listed()] == ["one", "damaged"]
    for group in (PluginGroup.RULES, PluginGroup.THEMES):
        found.try_out(group)
    (said,) = told
    assert "damaged 1.0: its entry points cannot be read" in said


def test_one_bad_line_of_entry_points_is_one_warning(tmp_path: Path) -> None:
    distribution(tmp_path, "one", {"rules": {"one": "json:loads"}})
    record = next(tmp_path.glob("one-*.dist-info")) / "entry_points.txt"
    record.write_text(f"{record.read_text()}\nno equals sign\n")
    found = Plugins(lambda: [str(tmp_path)])
    told: list[str] = []
    found.hear(told.append)
    found.try_out(PluginGroup.RULES)
    assert [line.partition(" of ")[0] for line in told] == ["rules plugin one"]

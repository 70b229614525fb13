"""Site policy: check.toml of system and user, --config, --ignore, and files that are no use."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputop.checking import policy as check_policy
from gputop.checking.policy import LIMIT_BYTES, LONGEST_REASON, Site, site
from gputop.checking.runs import all_rules
from gputop.exits import CANNOT_TELL, USAGE, Exit

from ...support.checked import checked, saved
from ...support.command import powerless
from ...support.rule_cases import cases

UNHEARD = ("checked",)

SICK = next(case for case in cases() if case.name == "bar1-256m")


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> tuple[Path, Path]:
    """The system's and the user's check.toml; neither is there yet."""
    system, user = tmp_path / "etc" / "check.toml", tmp_path / "home" / "gputop" / "check.toml"
    system.parent.mkdir()
    user.parent.mkdir(parents=True)
    monkeypatch.setattr(check_policy, "SYSTEM", system)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    return system, user


def decided(*ignored: str, config: Path | None = None) -> Site:
    return site(config, ignored, all_rules())


def test_without_files_nothing_is_decided(places: tuple[Path, Path]) -> None:
    assert decided() == Site(policy=decided().policy)
    assert not decided().policy.ignored


def test_the_user_s_word_counts_more_than_the_system_s(places: tuple[Path, Path]) -> None:
    system, user = places
    system.write_text(
        'expect = "dgx-h100"\n[ignore]\nbar1-small = "system"\nunexpected-gpus = "ours"\n'
        "[thresholds.bar1-small]\nminimum_share = 0.5\n"
    )
    user.write_text('expect = "dgx-h200"\n[ignore]\nbar1-small = "user"\n')
    found = decided("not-measured=typed", "bar1-small=typed=so")
    assert found.policy.ignored == {
        "bar1-small": "typed=so", "unexpected-gpus": "ours", "not-measured": "typed",
    }  # fmt: skip
    assert decided().policy.ignored["bar1-small"] == "user"
    assert found.policy.thresholds == {"bar1-small": {"minimum_share": 0.5}}
    assert found.expect == "dgx-h200"
    assert found.files == (str(system), str(user))
    assert found.notes == ()


def test_a_named_file_counts_alone(places: tuple[Path, Path], tmp_path: Path) -> None:
    places[0].write_text('[ignore]\nbar1-small = "system"\n')
    own = tmp_path / "own.toml"
    own.write_text('[ignore]\nunexpected-gpus = ""\n')
    found = decided(config=own)
    assert found.policy.ignored == {"unexpected-gpus": ""}
    assert found.files == (str(own),)


def test_a_snapshot_is_looked_for_beside_the_file_that_names_it(
    places: tuple[Path, Path],
) -> None:
    system, user = places
    system.write_text('expect = "./sister.json"\n')
    assert decided().expect == str(system.parent / "sister.json")
    user.write_text('expect = "/srv/sister.json"\n')
    assert decided().expect == "/srv/sister.json"
    user.write_text('expect = "healthy.json"\n')
    assert decided().expect == "healthy.json"
    (user.parent / "healthy.json").write_text("{}")
    assert decided().expect == str(user.parent / "healthy.json")


def test_what_this_version_does_not_know_is_a_note(places: tuple[Path, Path]) -> None:
    places[0].write_text(
        '[ignore]\n"bar1-smal" = "x"\n"\\u001b[31m" = "y"\n'
        "[thresholds.bar1-small]\nminimum = 1\n[thresholds.nothing]\na = 1\n"
    )
    found = decided()
    assert found.policy.ignored == {}
    assert len(found.notes) == 4
    assert "did you mean bar1-small" in found.notes[0]
    assert "has no limit minimum" in "".join(found.notes)
    assert "\x1b" not in "".join(found.notes)


@pytest.mark.parametrize(
    "text",
    [
        b"[ignore", b"\xff\xfe", b"ignore = 3", b"[ignore]\nx = 3\n", b"silence = true\n",
        b"[thresholds.bar1-small]\nminimum_share = true\n",
        b"[thresholds.bar1-small]\nminimum_share = inf\n",
        b"[thresholds.bar1-small]\nminimum_share = 'a'\n",
        b"#" * (LIMIT_BYTES + 1), b"x = " + b"[" * 9000,
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_used_is_no_silence(places: tuple[Path, Path], text: bytes) -> None:
    places[0].write_bytes(text)
    with pytest.raises(Exit) as refused:
        decided()
    assert refused.value.exit_code == CANNOT_TELL
    assert len(str(refused.value)) < 600


def test_a_home_that_may_not_be_looked_into_holds_no_policy(tmp_path: Path) -> None:
    home = tmp_path / "root"
    home.mkdir(mode=0)
    moved = {f"XDG_{name}_HOME": "" for name in ("CONFIG", "STATE", "CACHE", "DATA")}
    for command in ("check", "explain", "flags", "topo", "snapshot"):
        done = powerless(command, "--demo", "hgx-h100-8", HOME=str(home), **moved)
        assert done.returncode == 0, done.stderr
        assert "ermission" not in done.stderr


def test_a_usual_file_that_may_not_be_read_is_a_note(tmp_path: Path) -> None:
    place = tmp_path / "gputop" / "check.toml"
    place.parent.mkdir()
    place.touch(mode=0)
    arguments = ("check", "--quick", "--demo", "hgx-h100-8")
    done = powerless(*arguments, XDG_CONFIG_HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert f"note: {place}: Permission denied; the check goes without it" in done.stderr
    # Whoever names a file wants it to count.
    named = powerless(*arguments, "--config", str(place))
    assert named.returncode == USAGE
    assert named.stderr == f"gputop: {place}: Permission denied\n"


def test_an_unknown_rule_on_the_command_line_is_wrong_usage(places: tuple[Path, Path]) -> None:
    with pytest.raises(Exit) as refused:
        decided("no-such-rule=because")
    assert refused.value.exit_code == USAGE


def test_a_long_reason_is_cut(places: tuple[Path, Path]) -> None:
    assert len(decided("bar1-small=" + "x" * 9999).policy.ignored["bar1-small"]) == LONGEST_REASON


def test_a_user_without_a_home_has_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platformdirs.user_config_path", lambda name: Path("~/.config") / name)
    assert check_policy._user() == []


def test_policy_changes_the_verdict(
    places: tuple[Path, Path], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    node = saved(SICK.snapshot, tmp_path / "node.json")
    assert "bar1-small" in checked(capsys, "--json", "--from", node).ids
    places[1].write_text("[thresholds.bar1-small]\nminimum_share = 0.0\n")
    done = checked(capsys, "--json", "--from", node)
    assert "bar1-small" not in done.ids
    assert done.document["policy"] == [str(places[1])]
    places[1].write_text('expect = "dgx-h100"\n')
    done = checked(capsys, "--json", "--from", node)
    assert done.code == 2
    assert done.document["expect"] == "DGX H100"
    done = checked(capsys, "--json", "--from", node, "--expect", "pcie-l40s-8")
    assert "unexpected-gpus" not in done.ids
    # A demo is no node of the site.
    assert checked(capsys, "--json", "--demo", "pcie-l40s-8").document["expect"] is None


def test_of_thousands_of_unknown_rules_the_first_are_named(places: tuple[Path, Path]) -> None:
    places[1].write_text("[ignore]\n" + "".join(f'no-rule-{n} = "x"\n' for n in range(8_000)))
    notes = decided().notes
    assert len(notes) == 21
    assert ": 7,980 more entries" in notes[-1]

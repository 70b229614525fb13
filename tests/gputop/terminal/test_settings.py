"""The user's settings: what a start begins with, what is wrong with a file, what goes first."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputop.app import GpuTop
from gputop.screens.node.gpu_lines import COLUMNS, chosen
from gputop.terminal.preferences import Preferences
from gputop.terminal.settings import MOST_BYTES, NAME, of_user
from tests.support.app import app_of, demo_report, give, press, text


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    (tmp_path / "gputop").mkdir()
    return tmp_path / "gputop" / NAME


def test_without_a_file_nothing_is_set(settings: Path) -> None:
    assert of_user().settings.columns == ()
    assert of_user().line == "no app.toml in the configuration folder"
    assert Preferences.of_user().as_shipped


def test_a_setting_goes_before_the_last_choice_and_stays(settings: Path) -> None:
    Preferences.of_user().keep("sort", "memory")
    Preferences.of_user().keep("theme", "gputop-light")
    settings.write_text('order = "power"\n')
    found = Preferences.of_user()
    assert (found.get("sort"), found.get("theme")) == ("power", "gputop-light")
    assert not found.as_shipped
    found.keep("sort", "temperature")
    assert found.get("sort") == "temperature"
    assert Preferences.of_user().get("sort") == "power"
    settings.unlink()
    assert Preferences.of_user().get("sort") == "memory"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("start = 3\n", "$.start"),
        ("colour = 'red'\n", "colour"),
        ("start = \n", "line 1"),
        ("#" * (MOST_BYTES + 1), "more than"),
        (f"columns = {['W'] * 41}\n", "more than 40 columns"),
        ("columns = 1\n", "columns"),
    ],
)
def test_a_file_that_cannot_be_used_is_said_and_changes_nothing(
    settings: Path, content: str, says: str
) -> None:
    settings.write_text(content)
    found = of_user()
    assert says in found.trouble
    assert found.line == found.trouble
    assert found.settings.start == ""


def test_what_is_no_file_holds_nothing_up(settings: Path) -> None:
    settings.mkdir()
    assert not of_user().is_there


def test_columns_by_their_headings() -> None:
    found, unknown = chosen(("w", "Util %", "Colour"))
    assert [column.title for column in found] == ["GPU", "W", "Util %"]
    assert len(unknown) == 1
    assert "'Colour'" in unknown[0]
    assert chosen(()) == (COLUMNS, ())
    assert chosen(("nothing",))[0] == COLUMNS


async def test_the_app_begins_as_set(settings: Path) -> None:
    settings.write_text('start = "map"\norder = "power"\ncolumns = ["W", "Mem GiB"]\n')
    async with GpuTop(remembered=Preferences.of_user()).run_test(size=(120, 40)) as pilot:
        await give(pilot, demo_report("hgx-h100-8"))
        assert app_of(pilot).screen.name == "map"
        await press(pilot, "1")
        heading = text(pilot, "#gpus").splitlines()[1].split()
        assert heading == ["GPU", "Power", "W", "Mem", "GiB"]
        assert "by power" in text(pilot, "#gpus")


async def test_an_unknown_value_is_said_on_the_screen(settings: Path) -> None:
    settings.write_text('start = "mapp"\ncolumns = ["Watts"]\n')
    async with GpuTop(remembered=Preferences.of_user()).run_test(size=(120, 40)) as pilot:
        await give(pilot, demo_report("hgx-h100-8"))
        assert app_of(pilot).screen.name == "node"
        said = " ".join(app_of(pilot).settings_trouble())
        assert "no 'mapp'; did you mean map?" in said
        assert "no 'Watts'" in said
        shown = " ".join(notice.message for notice in app_of(pilot)._notifications)
        assert "mapp" in shown

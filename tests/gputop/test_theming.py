"""Themes, inks, cleaned text, and lines made of spans."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.color import Color
from textual.css.stylesheet import Stylesheet
from textual.theme import Theme

from gputop import theming
from gputop.app import GpuTop
from gputop.base_app import KeptStylesheet
from gputop.terminal.clean import clean, clean_block
from gputop.widgets.panels import ChoicePanel
from gputop.widgets.spans import left, right, text_of, width_of, wrapped
from tests.shared_styles import parse_again
from tests.support.app import app_of, demo_report, give, picture, press, settle

BUILTIN = theming.builtin()


@pytest.mark.parametrize("theme", BUILTIN, ids=lambda theme: theme.name)
def test_every_theme_has_every_variable(theme: Theme) -> None:
    wanted = set(BUILTIN[0].variables)
    optional = {"cursor-text"}
    assert wanted - optional == set(theme.variables) - optional
    assert {f"heat-{step}" for step in range(6)} <= wanted


def test_inks_combine_and_unknown_ones_draw_plain() -> None:
    inks = theming.Inks({"bad": "#ff0000", "heat-0": "#000000", "heat-5": "#ffffff"})
    assert inks.style("bad").color is not None
    assert inks.style("bad underline").underline
    assert inks.style("no-such-ink").color is None
    dark, bright = inks.style("heat-0").color, inks.style("heat-5").color
    assert dark is not None
    assert bright is not None
    assert dark.triplet != bright.triplet


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("name = ", "not TOML"),
        ("dark = true", "needs a name"),
        ('name = "x"\n[colors]\nprimary = "no colour"', "is no colour"),
        ('name = "x"\n[colors]\nprimry = "#123456"', "no colour of a theme"),
        ('name = "x"\ndark = 3', "true or false"),
        ('name = "x"\ncolors = 3', "is a table"),
        ('name = "x"\n[variables]\nbad = 7', "is no colour"),
    ],
)
def test_broken_theme_is_named_and_the_others_load(tmp_path: Path, content: str, why: str) -> None:
    (tmp_path / "broken.toml").write_text(content)
    (tmp_path / "fine.toml").write_text('name = "mine"\n[variables]\nbad = "#010203"')
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    loaded, failed = theming.load_user(tmp_path, BUILTIN[0])
    assert [theme.name for theme in loaded] == ["mine"]
    assert loaded[0].variables["bad"] == "#010203"
    assert loaded[0].primary == BUILTIN[0].primary
    assert len(failed) == 2
    assert why in next(text for text in failed if text.startswith("broken.toml"))


def test_a_user_without_a_home_has_no_themes(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(_: str) -> Path:
        raise RuntimeError("no home")

    monkeypatch.setattr("platformdirs.user_config_path", found)
    assert theming.load_user(theming.user_folder(), BUILTIN[0]) == ((), ())


async def test_user_themes_are_offered_and_a_broken_one_is_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.toml").write_text("nonsense")
    (tmp_path / "b.toml").write_text('name = "mine"')
    monkeypatch.setattr(theming, "user_folder", lambda: tmp_path)
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        app = app_of(pilot)
        assert "mine" in app.available_themes
        notes = [note for note in app._notifications if "a.toml" in note.message]
        assert len(notes) == 1


@pytest.mark.parametrize(
    "theme", [*(theme.name for theme in BUILTIN), "nord", "textual-light", "ansi-dark"]
)
async def test_every_theme_draws(theme: str) -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        if theme not in app_of(pilot).available_themes:
            pytest.skip("not in this version of Textual")
        app_of(pilot).theme = theme
        await give(pilot, demo_report("hgx-h100-8"))
        assert app_of(pilot).trouble == ""
        assert "Util %" in picture(pilot)


async def test_no_color_leaves_no_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await give(pilot, demo_report("sick-h100-8"))
        strips = pilot.app.screen._compositor.render_strips(pilot.app.size)
        for segment in (segment for strip in strips for segment in strip if segment.style):
            assert segment.style is not None
            for colour in (segment.style.color, segment.style.bgcolor):
                if colour is not None and colour.triplet is not None:
                    assert len(set(colour.triplet)) == 1
        assert "16/18!" in picture(pilot)


@given(st.text())
def test_cleaned_text_is_one_line_without_control_characters(text: str) -> None:
    categories = {unicodedata.category(character) for character in clean(text)}
    assert not categories & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    assert len(clean(text, 20)) <= 20


def test_blocks_keep_their_lines() -> None:
    assert clean_block("a\nb\x1b") == "a\nb�"
    assert clean("x" * 1000, 10) == "x" * 9 + "…"


@given(st.text(alphabet="ab 漢é[]", max_size=40), st.integers(1, 30))
def test_fitted_text_has_exactly_its_width(text: str, width: int) -> None:
    assert width_of(((left(text, width), ""),)) == width
    assert width_of(((right(text, width), ""),)) == width


@given(st.text(alphabet="abc  漢", max_size=200), st.integers(5, 40), st.integers(0, 4))
def test_wrapped_lines_keep_words_and_width(text: str, width: int, indent: int) -> None:
    lines = wrapped(((text, ""),), width, indent)
    assert all(width_of(line) <= max(width, indent + 4) for line in lines)
    joined = "".join(text_of(line).replace(" ", "") for line in lines)
    assert joined == text.replace(" ", "")


async def test_theme_is_previewed_chosen_and_left_alone_on_escape() -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await give(pilot, demo_report("hgx-h100-8"))
        app = app_of(pilot)
        plain = theming.inks_of(app).style("bad")
        await press(pilot, "t")
        assert isinstance(app.screen, ChoicePanel)
        await press(pilot, "down")
        assert app.theme != "gputop-dark"
        await press(pilot, "escape")
        assert app.theme == "gputop-dark"
        await press(pilot, "t", "down", "enter")
        assert app.theme.startswith("gputop-")
        assert app.theme != "gputop-dark"
        assert theming.inks_of(app).style("bad") != plain


def test_only_other_colours_are_parsed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stylesheet, "_parse_rules", parse_again)  # tests share what was parsed
    sheet = KeptStylesheet(variables={"ink": "red"})
    sheet.add_source("Label { color: $ink; }")
    (rule,) = sheet.rules
    sheet.set_variables({"ink": "red"})
    sheet.add_source("Label { color: $ink; text-style: bold; }")
    sheet.reparse()
    assert sheet.rules[0] is rule
    assert len(sheet.rules) == 2
    sheet.set_variables({"ink": "blue"})
    sheet.reparse()
    assert rule.styles.color == Color.parse("red")
    assert [other.styles.color for other in sheet.rules] == [Color.parse("blue")] * 2

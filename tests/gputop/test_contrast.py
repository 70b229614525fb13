"""Themes: whatever is text can be read, on the ground and under the cursor."""

from __future__ import annotations

import pytest
from textual.color import Color
from textual.theme import Theme

from gputop import theming

TEXTS = ("muted", "strong", "good", "warn", "bad", "key", "foreground")


def contrast(one: str, other: str) -> float:
    """Ratio of the luminances of two colours as WCAG 2 counts it, 1 to 21."""
    low, high = sorted(map(_luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    parts = [part / 255 for part in Color.parse(colour).rgb]
    lit = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * lit[0] + 0.7152 * lit[1] + 0.0722 * lit[2]


@pytest.mark.parametrize("theme", theming.builtin(), ids=lambda theme: theme.name)
def test_text_stands_out_from_its_ground(theme: Theme) -> None:
    colours = {**theme.variables, "foreground": str(theme.foreground)}
    names = [*TEXTS, *(name for name in colours if name.startswith("link-"))]
    cursor = colours["cursor"]
    for name in names:
        assert contrast(colours[name], str(theme.background)) >= 4.5, name
        assert contrast(colours.get("cursor-text", colours[name]), cursor) >= 3, name
    assert contrast(colours["pick-text"], colours["pick"]) >= 4.5
    assert contrast(colours["bar"], str(theme.background)) >= 3

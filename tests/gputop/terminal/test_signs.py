"""Terminals without UTF-8: every sign of ours takes one cell of ASCII."""

from __future__ import annotations

import io

import pytest

from gputop.terminal import signs


def written(text: str, encoding: str) -> str:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, errors="backslashreplace")
    signs.fit(stream)
    stream.write(text)
    stream.flush()
    return raw.getvalue().decode(encoding)


def test_lines_and_arrows_become_ascii_of_the_same_width() -> None:
    assert written("›GPU0 ━━─ │╭┼ 31 °C ↑1 → …", "ascii") == ">GPU0 ==- |++ 31 oC ^1 > ~"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_no_sign_changes_the_width_of_a_line(encoding: str) -> None:
    text = "".join(map(chr, range(0x2500, 0x25A0))) + "·–…×°µ›•●▶▲▼←→↑↓“”’"
    assert len(written(text, encoding)) == len(text)
    assert written("漢", encoding) == "??"


def test_utf_8_stays_as_it_is() -> None:
    assert written("━ → 漢", "utf-8") == "━ → 漢"

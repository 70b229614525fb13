"""What a user's TOML may not make its reader do, and what it may hold."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from gputop.topology.toml import MOST_PARTS, tomllib, user_table

SIZE = 40_000
"""Bytes of a key; what a quadratic reader takes for it is 1.6 GB."""
LONG = {
    "dots": "a." * (SIZE // 2) + "a = 1",
    "blanks": "a . " * (SIZE // 4) + "a = 1",
    "quoted": '"a#\'".' * (SIZE // 6) + "a = 1",
    "single": "'a\"'." * (SIZE // 5) + "a = 1",
    "table": "[" + "a." * (SIZE // 2) + "a]",
    "tables": "[[" + "a." * (SIZE // 2) + "a]]",
    "inline": "x = {y = 1, " + "a." * (SIZE // 2) + "a = 1}",
    "after a text": 'x = """\n"\\"""y"""\n' + "a." * (SIZE // 2) + "a = 1",
    "after a comment": "x = 1 # it's\n" + "a." * (SIZE // 2) + "a = 1",
}


@pytest.mark.parametrize("text", LONG.values(), ids=LONG.keys())
def test_a_long_key_is_not_read(text: str, tmp_path: Path) -> None:
    path = tmp_path / "long.toml"
    path.write_text(text)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="a key of more than 32 parts, which is gputop's"):
            user_table(path, 256 * 1024)
        assert tracemalloc.get_traced_memory()[1] < 10 * 10**6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "text",
    [
        f"{'.'.join(['a'] * MOST_PARTS)} = 1",
        f"x = {[number / 7 for number in range(99)]}",
        f"x = \"a{'.' * 99}\"\ny = '{'.' * 99}'",
        f'x = """{"." * 99}\n"{"." * 99}\\"""."""\ny = \'\'\'it\'s{"." * 99}\'\'\'',
        f"x = 1 # {'.' * 99}",
    ],
)
def test_dots_of_values_are_no_parts_of_a_key(text: str, tmp_path: Path) -> None:
    path = tmp_path / "sound.toml"
    path.write_text(text)
    assert user_table(path, 9999) == tomllib.loads(text)


@pytest.mark.parametrize("text", ["x = " + "[" * 9000, "x = " + "9" * 9000, '"' * 60_000, "\\" * 9])
def test_what_cannot_be_read_is_a_value_error(text: str, tmp_path: Path) -> None:
    path = tmp_path / "broken.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=r".+"):
        user_table(path, 2**20)

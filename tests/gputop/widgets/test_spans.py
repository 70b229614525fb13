"""Cells of lines."""

from __future__ import annotations

from rich.cells import get_character_cell_size

from gputop.widgets import spans


def test_what_is_measured_without_a_table_has_one_cell_for_each_character() -> None:
    wrong = {
        character
        for character in map(chr, (*range(32, 127), *range(160, 0x3000)))
        if spans.single(character) and get_character_cell_size(character) != 1
    }
    assert wrong == set()
    assert spans.single("▼ 2 of 18 · ─")
    assert not spans.single("日")
    assert spans.cell_len("日本") == 4
    assert spans.set_cell_size("日本", 3) == "日 "


def test_a_command_stays_whole_where_it_fits() -> None:
    said = spans.unbroken("look at it: df -h /dev/shm, or docker run --rm x")
    for width in range(6, 60):
        lines = [spans.text_of(line) for line in spans.wrapped(((said, ""),), width)]
        assert all(spans.cell_len(line) <= width for line in lines)
        assert "\N{NO-BREAK SPACE}" not in "".join(lines)
        for command in ("df -h /dev/shm,", "docker run --rm"):
            assert width < len(command) or any(command in line for line in lines)

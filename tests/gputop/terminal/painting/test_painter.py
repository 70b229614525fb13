"""What a painter sends makes a terminal show what Textual wrote, in whatever portions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import set_cell_size

from gputop.terminal.painting.painter import Painter
from gputop.terminal.painting.picture import Picture
from tests.support.painting.judge import Judge

COLUMNS, ROWS = 12, 4
WORDS = st.sampled_from(["a", "bcd", "    ", "▼█", "日", "x日本", "e\u0301", "语 ", "long words"])
INKS = st.sampled_from(["", "1", "2;31", "1;38;2;1;2;3;48;2;4;5;6", "48;2;4;5;6", "7", "3;44", "9"])
PUTS = st.tuples(st.integers(0, ROWS - 1), st.integers(0, COLUMNS - 1), WORDS, INKS)


def _frame(puts: list[tuple[int, int, str, str]]) -> str:
    written = []
    for row, column, word, ink in puts:
        cut = set_cell_size(word, min(COLUMNS - column, 10)) if column + 10 > COLUMNS else word
        written.append(f"\x1b[{row + 1};{column + 1}H\x1b[{ink}m{cut}\x1b[0m")
    return "".join([*written, "\x1b[2;3H"])


def _filled(columns: int = COLUMNS, rows: int = ROWS) -> str:
    return "\n".join(f"\x1b[{row}H\x1b[34m{'·' * columns}\x1b[0m" for row in range(1, rows + 1))


FRAMES = st.lists(
    st.tuples(st.lists(PUTS, max_size=6), st.sampled_from([None, None, 1, 20, 60])), max_size=8
)


@given(FRAMES)
def test_both_terminals_show_the_same(
    frames: list[tuple[list[tuple[int, int, str, str]], int | None]],
) -> None:
    judge = Judge(COLUMNS, ROWS)
    judge.write(_filled())
    for puts, most in frames:
        whole = judge.write(_frame(puts), most)
        assert whole or most is not None
        assert not whole or judge.differences() == []
    assert judge.write("\x1b[1;1H")
    assert judge.differences() == []
    place = judge.ours.cursor.y, judge.ours.cursor.x
    assert place == (judge.theirs.cursor.y, judge.theirs.cursor.x) == (0, 0)


def test_a_new_size_is_drawn_whole() -> None:
    judge = Judge(COLUMNS, ROWS)
    judge.write(_filled())
    for columns, rows in ((7, 2), (15, 6), (12, 4)):
        judge.resize(columns, rows)
        judge.write(_filled(columns, rows))
        assert judge.differences() == []


def test_a_terminal_that_is_smaller_than_the_picture_gets_what_fits() -> None:
    judge = Judge(5, 2)
    judge.write(_filled(4, 2))
    judge.look()
    picture = Picture()
    picture.read("\x1b[H日本語\x1b[4;1Hbelow")
    painter = Painter(picture)
    painter.fit(5, 2)
    sent, whole = painter.paint()
    assert whole
    judge.ours.feed(sent)
    assert judge.ours.display == ["日本 ", "···· "]


def test_nothing_is_sent_twice_and_forgetting_sends_everything() -> None:
    picture = Picture()
    painter = Painter(picture)
    painter.fit(20, 2)
    picture.read("\x1b[H\x1b[31mfigures 17 %\x1b[0m\x1b[1;1H")
    first, _ = painter.paint()
    assert "figures 17 %" in first
    picture.read("\x1b[H\x1b[31mfigures 17 %\x1b[0m\x1b[1;1H")
    assert painter.paint() == ("", True)
    picture.read("\x1b[H\x1b[31mfigures 18 %\x1b[0m\x1b[1;1H")
    assert painter.paint() == ("\x1b[9C\x1b[31m8\x1b[m\r", True)
    painter.forget()
    assert painter.paint()[0].endswith("figures 18 %\x1b[m\r")


def test_on_a_slow_line_the_selection_and_the_newest_picture_come_first() -> None:
    picture = Picture()
    painter = Painter(picture)
    painter.fit(40, 3)
    picture.read("\n".join(f"\x1b[{row}H{'old ' * 10}" for row in (1, 2, 3)))
    painter.paint()
    picture.read(f"\x1b[H{'mid ' * 10}\n\x1b[2H{'mid ' * 10}\n\x1b[3H\x1b[44mold \x1b[0m")
    sent, whole = painter.paint(20)
    assert not whole
    assert sent.startswith("\r\x1b[44mold \x1b[")
    picture.read(f"\x1b[H{'new ' * 10}\n\x1b[2H{'new ' * 10}\n\x1b[3H\x1b[44mold \x1b[0m")
    rest = ""
    while not whole:
        part, whole = painter.paint(20)
        assert len(part) <= 20 + 12
        rest += part
    assert rest.count("new") >= 19
    assert "mi" not in rest

"""Curves as lines: points, braille between them, the band, axes that any size and value fit on."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gputop.screens.probes.plot import DOTS, PLAIN_DOTS, legend, plot
from gputop.screens.probes.sweeps import MOST, MOST_BYTES, Series, Sweep
from gputop.widgets.spans import text_of, width_of

SWEEP = Sweep(
    "write by size",
    "GB/s",
    (
        Series("median of 42", ((4096.0, 40.0), (1 << 20, 200.0), (1 << 30, 400.0))),
        Series("GPU0 -> GPU3", ((4096.0, 30.0), (1 << 20, 150.0), (1 << 30, 300.0))),
    ),
    ((float(1 << 28), 323.0, 437.0), (float(1 << 30), 323.0, 437.0)),
    "a data sheet",
)


def drawn(sweep: Sweep, width: int, height: int, *, plain: bool = False) -> list[str]:
    return [text_of(line) for line in plot(sweep, width, height, plain=plain)]


def test_a_picture() -> None:
    assert drawn(SWEEP, 44, 12) == [
        "   │                                        ",
        "400┤                                  ╌╌╌╌⢀●",
        "   │                                 ⣀⡠⠔⠒⠉⠁ ",
        "   │                           ⢀⡠⠤⠒⠊⠉ ╌╌╌⢀⣀○",
        "   │                     ⢀⣀⠤⠔⠒⠉⠁  ⣀⣀⠤⠤⠒⠊⠉⠁  ",
        "200┤                ⣀●⠤⠒⠉⠁⢀⣀⡠⠤⠔⠒⠉⠉          ",
        "   │          ⢀⣀⠤⠒⠊⣉⣀○⠤⠒⠊⠉⠁                 ",
        "   │     ⣀⡠⢔⣒⡩⠥⠔⠒⠉⠉                         ",
        "   │●⣤⠶⠮⠛⠒⠉⠁                                ",
        "  0┤                                        ",
        "   └┬────────┬───────┬────────┬───────┬────┬",
        "   4K       64K     1M       16M    256M  1G",
    ]


def test_an_axis_of_few_rows_still_has_a_mark_above_nothing() -> None:
    assert [line[:4] for line in drawn(SWEEP, 44, 5, plain=True)] == [
        "400+",
        "200+",
        "  0+",
        "   +",
        "   4",
    ]


def test_the_legend_names_the_source_where_it_fits() -> None:
    whole = " ● median of 42   ○ GPU0 -> GPU3   ╌ healthy 323–437 a data sheet"
    assert text_of(legend(SWEEP, 90, plain=False)) == whole
    assert text_of(legend(SWEEP, 60, plain=False)) == whole.removesuffix("a data sheet")


@given(
    points=st.lists(
        st.tuples(st.floats(1.0, MOST_BYTES), st.floats(0.0, MOST)), min_size=3, max_size=9
    ),
    band=st.lists(
        st.tuples(st.floats(1.0, MOST_BYTES), st.floats(0.0, MOST), st.floats(0.0, MOST)),
        max_size=2,
    ),
    width=st.integers(0, 130),
    height=st.integers(0, 40),
    plain=st.booleans(),
)
def test_it_fills_its_room_whatever_the_figures_are(
    points: list[tuple[float, float]],
    band: list[tuple[float, float, float]],
    width: int,
    height: int,
    plain: bool,
) -> None:
    series = (Series("one", tuple(sorted(dict(points).items()))),)
    lines = plot(Sweep("title", "GB/s", series, tuple(sorted(band))), width, height, plain=plain)
    assert len(lines) in {0, height}
    assert {width_of(line) for line in lines} <= {width}
    if lines:
        text = "".join(map(text_of, lines))
        assert (PLAIN_DOTS if plain else DOTS)[0] in text
        assert not plain or text.isascii()

"""Several screens, one after the other, as one SVG that moves: rows that stay are drawn once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from .cells import Row
from .svg import FONTS, HIGH, MARGIN, SIZE, WIDE, commonest, drawn_row

KEY_INK, WORD_INK = "#e5c07b", "#8b949e"


@dataclass(frozen=True)
class Frame:
    """One screen of the walk, how long it stays, and what is said below it."""

    rows: tuple[Row, ...]
    seconds: float
    key: str = ""
    """The key that led here; "" where it is that of the frame before."""
    said: str = ""


def moving(frames: list[Frame], title: str) -> str:
    """The frames as one picture that begins again at its end."""
    high, columns = len(frames[0].rows), sum(run.width for run in frames[0].rows[0])
    back = commonest(frames[0].rows)
    starts = [sum(frame.seconds for frame in frames[:place]) for place in range(len(frames) + 1)]
    shown: dict[tuple[int, int], list[str]] = {}
    for number in range(high):
        for first, last in _stays([frame.rows[number] for frame in frames]):
            text = drawn_row(frames[first].rows[number], number, back)
            shown.setdefault((first, last), []).append(text)
    said = [(frame.key, frame.said) for frame in frames]
    for first, last in _stays(said):
        shown.setdefault((first, last), []).append(_caption(*said[first], high + 1))
    whole = starts[-1]
    styles, groups = [], []
    for name, ((first, last), texts) in enumerate(sorted(shown.items())):
        if (first, last) == (0, len(frames) - 1):
            groups.append("".join(texts))
            continue
        styles.append(_style(f"f{name}", starts[first] / whole, starts[last + 1] / whole, whole))
        groups.append(f'<g class="f{name}">\n{"".join(texts)}</g>\n')
    wide, tall = columns * WIDE + 2 * MARGIN, (high + 2) * HIGH + 2 * MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:.0f} {tall:.0f}" '
        f'width="{wide:.0f}" height="{tall:.0f}">\n<title>{escape(title)}</title>\n'
        f"<style>\n{''.join(styles)}</style>\n"
        f'<rect width="100%" height="100%" rx="6" fill="{back}"/>\n'
        f'<g transform="translate({MARGIN} {MARGIN})" font-family="{FONTS}" font-size="{SIZE}" '
        f'style="white-space:pre">\n{"".join(groups)}</g>\n</svg>\n'
    )


def _stays(things: Sequence[object]) -> list[tuple[int, int]]:
    """The first and last frame of each stretch in which a thing stays the same."""
    found: list[tuple[int, int]] = []
    for place, thing in enumerate(things):
        if found and things[found[-1][0]] == thing:
            found[-1] = (found[-1][0], place)
        else:
            found.append((place, place))
    return found


def _style(name: str, start: float, end: float, seconds: float) -> str:
    """Seen from `start` to `end`, shares of the whole."""
    steps = [(0.0, 0)] if start > 0 else []
    steps += [(start, 1)]
    steps += [(end, 0)] if end < 1 else []
    frames = "".join(f"{100 * at:.3f}%{{opacity:{seen}}}" for at, seen in steps)
    # Without animation, as in a still of it, the last frame stays.
    still = int(end >= 1)
    return (
        f"@keyframes {name}{{{frames}}}"
        f".{name}{{opacity:{still};animation:{name} {seconds:g}s step-end infinite}}\n"
    )


def _caption(key: str, said: str, row: int) -> str:
    top = row * HIGH + HIGH * 0.5
    lead = f'<tspan fill="{KEY_INK}" font-weight="bold">{escape(key)}</tspan>  ' if key else ""
    return f'<text x="0" y="{top:.1f}" fill="{WORD_INK}">{lead}{escape(said)}</text>\n'

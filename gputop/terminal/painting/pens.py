"""With what a cell is drawn: colours, attributes, a link; and the way from one pen to another."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from gputop.topology.model.errors import GputopError

OFF = {
    1: 22, 2: 22, 3: 23, 4: 24, 5: 25, 6: 25, 7: 27, 8: 28, 9: 29, 21: 24, 51: 54, 52: 54, 53: 55,
}  # fmt: skip
"""Parameter of SGR that switches an attribute on -> the one that switches it off (ECMA-48)."""
_PLAIN_COLORS = {*range(30, 38), *range(40, 48), *range(90, 98), *range(100, 108)}


class PictureError(GputopError):
    """Textual wrote something that a picture cannot follow."""


class Pen(NamedTuple):
    """Colours are parameters of SGR, empty for the terminal's own."""

    attributes: frozenset[int] = frozenset()
    front: str = ""
    back: str = ""
    link: str = ""
    """What follows `8;` in an OSC; empty for none."""


DEFAULT = Pen()


@lru_cache(1024)
def turned(pen: Pen, parameters: str) -> Pen:
    """The pen after these parameters of SGR; raises PictureError."""
    attributes, front, back, link = pen
    codes = iter(parameters.split(";"))
    for written in codes:
        code = int(written or 0)
        if code == 0:
            attributes, front, back = frozenset(), "", ""
        elif code in OFF:
            attributes |= {code}
        elif code in OFF.values():
            attributes = frozenset(on for on in attributes if OFF[on] != code)
        elif code in (39, 49):
            front, back = ("", back) if code == 39 else (front, "")
        elif code in (38, 48):
            kind = next(codes, "")
            values = [next(codes, "") for _ in range({"5": 1, "2": 3}.get(kind, 0))]
            if not values or not all(values):
                raise PictureError(f"colour {parameters}")
            color = ";".join((written, kind, *values))
            front, back = (color, back) if code == 38 else (front, color)
        elif code in _PLAIN_COLORS:
            is_front = code // 10 in (3, 9)
            front, back = (written, back) if is_front else (front, written)
        else:
            raise PictureError(f"attribute {parameters}")
    return Pen(attributes, front, back, link)


@lru_cache(1024)
def change(before: Pen | None, after: Pen) -> str:
    """The shortest sequence from one pen to another; None is a pen that nobody knows."""
    if before == after:
        return ""
    link = ""
    if after.link != (before.link if before is not None else ""):
        link = f"\x1b]8;{after.link or ';'}\x1b\\"
    if before is not None and before[:3] == after[:3]:
        return link
    on = [str(code) for code in sorted(after.attributes)]
    whole = ";".join(["0", *on, *filter(None, (after.front, after.back))])
    if after[:3] == DEFAULT[:3]:
        whole = ""
    if before is None:
        return f"{link}\x1b[{whole}m"
    off = {OFF[code] for code in before.attributes - after.attributes}
    kept = {code for code in before.attributes if OFF[code] not in off}
    steps = [str(code) for code in sorted(off)]
    steps += [str(code) for code in sorted(after.attributes - kept)]
    if before.front != after.front:
        steps.append(after.front or "39")
    if before.back != after.back:
        steps.append(after.back or "49")
    return f"{link}\x1b[{min(whole, ';'.join(steps), key=len)}m"

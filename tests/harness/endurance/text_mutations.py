"""Mutations that need no grammar: of bytes, and of lines, words and numbers of a text."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from random import Random

from . import hostile

MOST_BYTES = 4_000_000
"""What doubles stops here; the program's own limits on sizes have tests of their own."""

_NUMBER = re.compile(rb"\d+(?:\.\d+)?")
_WORD = re.compile(rb"[A-Za-z_][A-Za-z0-9_.:-]+")
_ENCODINGS = ("utf-16", "utf-16-le", "utf-32", "utf-8-sig", "cp1252", "utf-7", "cp037")


def octets(value: str) -> bytes:
    """A hostile text as a file holds it: a lone half of a pair becomes three bytes."""
    return value.encode("utf-8", "surrogatepass")


def of_bytes(data: bytes, rolls: Random) -> bytes:
    """Change some bytes, whatever they mean."""
    return rolls.choice(_BYTES)(data, rolls)


def of_text(data: bytes, rolls: Random) -> bytes:
    """Change lines, words or numbers."""
    return rolls.choice(_TEXT)(data, rolls)


def _flipped(data: bytes, rolls: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rolls.choice((1, 1, 3, 20)) if data else 0):
        changed[rolls.randrange(len(changed))] ^= 1 << rolls.randrange(8)
    return bytes(changed)


def _cut(data: bytes, rolls: Random) -> bytes:
    place = rolls.randint(0, len(data))
    return data[:place] if rolls.random() < 0.8 else data[place:]


def _block(data: bytes, rolls: Random) -> tuple[int, int]:
    start = rolls.randint(0, len(data))
    return start, min(len(data), start + rolls.choice((1, 8, 60, 400, 4000)))


def _without_block(data: bytes, rolls: Random) -> bytes:
    start, end = _block(data, rolls)
    return data[:start] + data[end:]


def _doubled_block(data: bytes, rolls: Random) -> bytes:
    start, end = _block(data, rolls)
    times = min(rolls.choice((1, 1, 2, 50, 10_000)), (MOST_BYTES - len(data)) // (end - start + 1))
    return data[:end] + data[start:end] * max(times, 1) + data[end:]


def _swapped_blocks(data: bytes, rolls: Random) -> bytes:
    (a, b), (c, d) = sorted((_block(data, rolls), _block(data, rolls)))
    return data[:a] + data[max(b, c) : d] + data[b:c] + data[a:b] + data[max(b, d) :]


def _inserted(data: bytes, rolls: Random) -> bytes:
    place = rolls.randint(0, len(data))
    made = rolls.choice(
        (
            rolls.randbytes(rolls.choice((1, 4, 64))),
            octets(hostile.text(rolls)),
            b"\x00" * rolls.choice((1, 600)),
            b"\xff\xfe",
            b"\xc3",
            b"\xf5\x80\x80\x80",
        )
    )
    return data[:place] + made + data[place:]


def _twice(data: bytes, rolls: Random) -> bytes:
    return data + rolls.choice((b"", b"\n", b"\x00")) + data


def _encoded(data: bytes, rolls: Random) -> bytes:
    name = rolls.choice(_ENCODINGS)
    made = data.decode("utf-8", "replace").encode(name, "replace")
    return rolls.choice((b"", b"", codecs.BOM_UTF16_BE)) + made


def _line_ends(data: bytes, rolls: Random) -> bytes:
    end = rolls.choice((b"\r\n", b"\r", b"\n\n", b"\n\r", b"\x0b", b"\x00\n", b" \n", b""))
    return data.replace(b"\n", end)


def _number(data: bytes, rolls: Random) -> bytes:
    return _replaced(data, rolls, _NUMBER, lambda: hostile.number(rolls))


def _word(data: bytes, rolls: Random) -> bytes:
    return _replaced(data, rolls, _WORD, lambda: hostile.text(rolls))


def _swapped_words(data: bytes, rolls: Random) -> bytes:
    """Fields that trade places: each is sound, and in the wrong place."""
    found = list(rolls.choice((_NUMBER, _WORD)).finditer(data))
    if len(found) < 2:
        return data
    a, b = sorted(rolls.sample(range(len(found)), 2))
    first, second = found[a], found[b]
    between = data[first.end() : second.start()]
    return b"".join((data[: first.start()], second[0], between, first[0], data[second.end() :]))


def _replaced(
    data: bytes, rolls: Random, what: re.Pattern[bytes], made: Callable[[], str]
) -> bytes:
    """One occurrence, or all of the same, become what is made."""
    found = list(what.finditer(data))
    if not found:
        return data
    match, new = rolls.choice(found), octets(made())
    if rolls.random() < 0.1:
        return data.replace(match[0], new)[:MOST_BYTES]
    return data[: match.start()] + new + data[match.end() :]


def _lines(data: bytes, rolls: Random) -> bytes:
    lines = data.splitlines(keepends=True)
    if not lines:
        return data
    place = rolls.randrange(len(lines))
    line = lines[place]
    match rolls.randrange(6):
        case 0:
            del lines[place]
        case 1:
            lines[place:place] = [line] * min(
                rolls.choice((1, 3, 1000)), MOST_BYTES // (len(line) + 1)
            )
        case 2:
            other = rolls.randrange(len(lines))
            lines[place], lines[other] = lines[other], line
        case 3:
            lines[place] = line.rstrip() + b" " + octets(hostile.text(rolls)) + b"\n"
        case 4:
            lines[place] = line.rstrip(b"\r\n")  # two lines in one
        case _:
            lines[place] = b"".join(sorted(line.split(b" "), key=lambda _: rolls.random()))
    return b"".join(lines)


def _nested(data: bytes, rolls: Random) -> bytes:
    """Brackets in brackets, put where a value stands or anywhere."""
    found = list(rolls.choice((_NUMBER, _WORD)).finditer(data))
    start, end = rolls.choice(found).span() if found else (0, 0)
    opens, closes = rolls.choice(_BRACKETS)
    depth = rolls.choice(_DEPTHS)
    made = opens * depth + data[start:end] + closes * (depth if rolls.random() < 0.7 else 0)
    return data[:start] + made + data[end:]


def _filled_lines(data: bytes, rolls: Random) -> bytes:
    """The beginning of a line and then one character, often: as a long line, or as many."""
    line = rolls.choice(data.splitlines() or [b"a"])
    head = b" ".join(line.split(b" ")[: rolls.randrange(4)])
    long = rolls.choice((100, 3_000, 100_000))
    made = head + rolls.choice(_FILLERS) * long + b"\n"
    times = rolls.choice((1, MOST_BYTES // 4 // len(made)))
    place = data.find(line)
    return data[:place] + made * times + data[place:]


def _long_line(data: bytes, rolls: Random) -> bytes:
    """A line as often as fits, in one line: as it is, with blanks or commas, or a word of it."""
    line = rolls.choice(data.splitlines() or [b"a"])
    piece = rolls.choice((line, rolls.choice(line.split() or [b"a"])))
    piece += rolls.choice((b"", b" ", b",", b", ", b"=", b".", b":"))
    times = min(rolls.choice((100, 10_000, 1_000_000)), MOST_BYTES // 4 // (len(piece) + 1))
    place = data.find(line)
    return data[:place] + piece * times + data[place:]


_Change = Callable[[bytes, Random], bytes]
_BYTES: tuple[_Change, ...] = (
    _flipped,
    _cut,
    _without_block,
    _doubled_block,
    _swapped_blocks,
    _inserted,
    _twice,
    _encoded,
    _line_ends,
)
_TEXT: tuple[_Change, ...] = (
    *(_number, _number, _number, _word, _word, _swapped_words, _lines),
    *(_nested, _long_line, _filled_lines),
)
_BRACKETS = (
    *((b"[", b"]"), (b"{", b"}"), (b"(", b")"), (b"<a>", b"</a>"), (b'"', b'"'), (b"a=[", b"]")),
)
_FILLERS = (b" ", b"\t", b"|", b"-", b"=", b"_", b"a", b"0", b"[", b"(", b",", b".", b":", b"/")
_DEPTHS = (3, 100, 2_000, 100_000)

"""Texts and numbers that no tool writes and that a file may still hold."""

from __future__ import annotations

from random import Random

CHARACTERS = (
    *map(chr, (0, 1, 7, 8, 11, 12, 13, 27, 31, 127, 128, 133, 144, 155, 157, 159)),
    "\u061c",
    "\u200b",
    "\u200e",
    "\u200f",
    "\u2028",
    "\u2029",
    "\u202a",
    "\u202e",
    "\u2066",
    "\u2069",
    "\ufeff",
    "\ufffe",
    "\ue000",
    "\ud800",
    "\U000e0041",
    "\U0001f4a9",
    "a\u0301\u0301\u0301",
)
"""Controls, formats, a half of a surrogate pair, and what is wider or narrower than it looks."""
SEQUENCES = (
    "\x1b[2J",
    "\x1b]0;title\x07",
    "\x1bP0;1|q\x1b\\",
    "\x9b31m",
    "[red]",
    "[/]",
    "[link=file:///etc/passwd]x[/link]",
    "{0.__class__}",
    "{}",
    "%s%n",
    "$(id)",
    "../../../etc/passwd",
    "/" * 300,
    "<a&b>\"'",
    "]]>",
    "-->",
    "\\u001b",
    "\n\n",
    "\t",
    "\r\n",
    "a\rb",
    ",",
    ";",
    "=",
    "NaN",
    "null",
    "N/A",
    "",
    " ",
    "٣",
    "½",
    "²",
    "gpu",
    "0000:ff:1f.7",
    "ffffffff:00:00.0",
    "GPU-" + "0" * 32,
)
NUMBERS = (
    "-1",
    "-0",
    "0",
    "1",
    "2",
    "7",
    "127",
    "128",
    "255",
    "256",
    "1023",
    "4096",
    "65535",
    "65536",
    "1000000",
    "2147483647",
    "2147483648",
    "-2147483648",
    "4294967295",
    "4294967296",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "1" + "0" * 30,
    "9" * 400,
    "9" * 5000,
    "1e9",
    "1e308",
    "1e309",
    "-1e309",
    "1e-320",
    "0.1",
    "-0.5",
    ".5",
    "5.",
    "0x10",
    "0xffffffffffffffffffff",
    "1_000",
    "1,5",
    "+3",
    "00017",
    "nan",
    "inf",
    "-Infinity",
)


def text(rolls: Random) -> str:
    """A text of hostile characters, short or now and then long."""
    pieces = [
        rolls.choice(CHARACTERS if rolls.random() < 0.5 else SEQUENCES)
        for _ in range(rolls.randint(1, 4))
    ]
    made = rolls.choice(("", "GPU ", "mlx5_")).join(["", *pieces])
    return made * rolls.choice((50, 5000)) if rolls.random() < 0.04 else made


def number(rolls: Random) -> str:
    """A number at an edge, as text; not each is one."""
    return rolls.choice(NUMBERS)

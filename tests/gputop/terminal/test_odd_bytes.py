"""Bytes that are no keys, in a real terminal: Latin-1, old mouse reports, every byte there is."""

from __future__ import annotations

import random

import pytest

from gputop.terminal.painting.driver import KeyDecoder
from tests.support.terminal import Terminal

SCREENS = "123456789"
OPENERS = (b"", b"/", b"?", b"&", b"f", b"t")
LEAVING = set(b"qQx\x03\x04\x1a\x11\x12\x13\x1c")
"""Bytes that end or stop a program, as they should, and the key that writes a file."""


@pytest.mark.parametrize(
    ("reads", "text"),
    [
        ([b"caf\xe9 "], "caf\ufffd "),
        ([b"caf\xc3", b"\xa9"], "café"),
        ([b"a\x1b[M \xe1\xffb"], "ab"),
        ([b"a\x1b[", b"M", b" q", b"qb"], "ab"),
        ([b"\x1b"], "\x1b"),
        ([b"\x1b[", b"A"], "\x1b[A"),
        ([b"\x1b[<0;3;4M"], "\x1b[<0;3;4M"),
    ],
)
def test_what_a_terminal_sends_is_text_whatever_it_is(reads: list[bytes], text: str) -> None:
    decoder = KeyDecoder()
    assert "".join(decoder.decode(data) for data in reads) == text


@pytest.mark.terminal
@pytest.mark.parametrize("opener", OPENERS)
def test_no_byte_ends_the_app(opener: bytes) -> None:
    made = random.Random(opener)
    every = [bytes([value]) for value in range(256) if value not in LEAVING]
    made.shuffle(every)
    pasted = b"\x1b[200~" + made.randbytes(300).replace(b"\x1b", b"") + b"\x1b[201~"
    with Terminal(["--demo", "pcie-l40s-8"], columns=100, lines=30) as terminal:
        terminal.wait_for("q +quit")
        for screen in SCREENS:
            terminal.type(b"\x1b")
            terminal.read(0.2)  # an Escape that something follows would be another key
            terminal.type(screen.encode() + opener)
            terminal.type(b"caf\xe9 \x1b[M\xe1q\xff" + pasted)
            terminal.type(b"".join(every[:40]))
            every = every[40:] + every[:40]
            terminal.read(0.2)
            assert terminal.process.poll() is None, terminal.text()[-500:]
        for _ in range(4):  # panels, lines and what they opened
            terminal.type(b"\x1b")
            terminal.read(0.3)
        terminal.type(b"\x03\x03\x03")
        terminal.wait_end()
        assert terminal.process.returncode == 0
        assert terminal.sane()
        assert "Traceback" not in terminal.text()

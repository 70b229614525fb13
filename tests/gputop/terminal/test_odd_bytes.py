"""Bytes that are no keys, in a real terminal: Latin-1, old mouse reports, every byte there is."""

from __future__ import annotations

import random

import psutil
import pytest

from gputop.terminal.painting.driver import KeyDecoder
from tests.grid import share
from tests.support.terminal import Terminal

SCREENS = "123456789"
OPENERS = (b"", b"/", b"?", b"&", b"f", b"t")
ODD_SEQUENCES = (
    b"\x1b[1000000000000;1u\x1b[97:65;1u\x1b[1;1;55296u\x1b[48;0;0;0;0t\x1b[48;65535;65535;1;1t"
    b"\x1b[48;30;100;0;0t\x1b[<0;3;3M\x1b[<999999999999;999999999999;999999999999M"
)
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
        ([b"\x1b[48;65536;65536;0;0ta"], "a"),
        ([b"\x1b[48;0;0;0;0ta\x1b[48;99", b"999;1;1;1t", b"b"], "ab"),
        ([b"\x1b[48;30;100;0;0t"], "\x1b[48;30;100;30;100t"),
        ([b"\x1b[1000000000000;1ua\x1b[55296;1u\x1b[1114112;1u"], "a"),
        ([b"\x1b[97:65;5:1;97u"], "\x1b[97;5;97u"),
        ([b"\x1b[1;5", b"Aa"], "\x1b[1;5Aa"),
        ([b"\x1b[200~a\x1b[M(", b"\x1b[201~"], "\x1b[200~a\x1b[M(\x1b[201~"),
        ([b"\x1b[200~ab\x1b", b"\x03\x03"], "\x1b[200~ab\x1b\x1b[201~\x03\x03"),
        (["\x1b[٩٩٩٩٩٩٩٩;1ua".encode()], "a"),
    ],
)
def test_what_a_terminal_sends_is_text_whatever_it_is(reads: list[bytes], text: str) -> None:
    decoder = KeyDecoder()
    assert "".join(decoder.decode(data) for data in reads) == text


@pytest.mark.terminal
@pytest.mark.parametrize("opener", share(OPENERS, 7))
def test_no_byte_ends_the_app(opener: bytes) -> None:
    made = random.Random(opener)
    every = [bytes([value]) for value in range(256) if value not in LEAVING]
    made.shuffle(every)
    pasted = b"\x1b[200~" + made.randbytes(300).replace(b"\x1b", b"") + b"\x1b[201~"
    with Terminal(["--demo", "pcie-l40s-8"], columns=100, lines=30) as terminal:
        terminal.wait_for("q +quit")
        terminal.type(ODD_SEQUENCES)
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
        for _ in range(8):  # it closes one thing after the other, and then leaves
            if terminal.process.poll() is None:
                terminal.type(b"\x03\x03\x03")
                terminal.read(0.5)
        terminal.wait_end()
        assert terminal.process.returncode == 0
        assert terminal.sane()
        assert "Traceback" not in terminal.text()


@pytest.mark.terminal
@pytest.mark.parametrize(("columns", "lines"), share([(100, 30), (65535, 65535)], 2))
def test_a_window_of_any_size_takes_little_memory(columns: int, lines: int) -> None:
    with Terminal(["--demo", "pcie-l40s-8"], columns=columns, lines=lines) as terminal:
        terminal.wait_for("q +quit")
        for columns, lines in ((1, 1), (65535, 3), (65535, 65535), (100, 30)):
            terminal.resize(columns, lines)
            terminal.read(0.3)
        terminal.written = b""
        terminal.type(b"2")
        terminal.wait_for("Map")
        used = psutil.Process(terminal.process.pid).memory_info().rss
        assert used < 400 * 10**6, f"{used / 1e6:.0f} MB"
        terminal.send("q")
        terminal.wait_end()
        assert terminal.process.returncode == 0
        assert terminal.sane()


@pytest.mark.terminal
@pytest.mark.parametrize("early", share([True, False], 2))
def test_a_size_that_was_pasted_is_not_that_of_the_window(early: bool) -> None:
    with Terminal(["--demo", "pcie-l40s-8"], columns=100, lines=30) as terminal:
        if early:
            terminal.type(b"\x1b[48;1;1;0;0t")
        terminal.wait_for("q +quit")
        terminal.type(b"\x1b[48;1;1;0;0t")
        terminal.read(0.5)
        terminal.forget()
        terminal.send("2")
        terminal.wait_for("Map")
        terminal.send("q")
        terminal.wait_end()
        assert terminal.process.returncode == 0
        assert terminal.sane()

"""Lines of the kernel's log, wherever they stand in a text: dmesg, journalctl, syslog, kern.log."""

from __future__ import annotations

from collections.abc import Iterator

from ....hardware.faults.catalogue import signs
from ....model.format import text_format
from ....sources.linux.kernel_lines import KERNELS, read_lines, said_in


def _finds(text: str) -> Iterator[int]:
    """Where lines about faults begin, and the kernel's other lines right above them."""
    places = sorted({at for sign in signs() for at in _starts(text, sign)})
    done = 0
    for start in places:
        if start < done:
            continue
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        line = text[start:end]
        headed = KERNELS.match(line) is not None
        if not (headed or said_in(line) is not None):
            continue
        first = start
        while first > done:
            above = text.rfind("\n", 0, first - 1) + 1
            if not KERNELS.match(text[above : first - 1]):
                break
            first = above
        done = end
        yield first
        if first < start and not headed:
            yield start  # the text above goes on with lines of the kernel's alone


def _starts(text: str, sign: str) -> Iterator[int]:
    at = text.find(sign)
    while at >= 0:
        yield text.rfind("\n", 0, at) + 1
        at = text.find(sign, at + 1)


FORMAT = text_format(
    "kernel log",
    read_lines,
    KERNELS,
    finds=_finds,
    needs=signs(),
    goes_on=KERNELS,
    repeats=True,
    together=True,
    yields=True,
)

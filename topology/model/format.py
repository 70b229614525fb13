"""A format that `--from` reads: recognised by its content, parsed into a part of a snapshot."""

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec

from .errors import GputopError
from .part import PartialNode
from .snapshot import Problem, ProblemKind

LIMIT_BYTES = 64 * 1024 * 1024
"""Largest file that is read; recordings of real nodes are below 1 MB."""
TEXT_BYTES = 4 * 1024 * 1024
"""Most that a tool prints as text about one node."""

MOST_MEASURED = 65_536
"""Figures that are kept of one text, over 1 kB each: four matrices of 128 GPUs have as many."""
MOST_VALUES = 3_000_000
"""Values of a JSON text; 65,536 ranks of a job have half as many."""
HEAVY = 3
"""More values that a list or an object counts as."""


class FormatError(GputopError, ValueError):
    """The content is broken or hostile; the text says what is wrong, `line` says where."""

    def __init__(self, text: str, line: int | None = None) -> None:
        super().__init__(text)
        self.line = line


class TooManyValuesError(FormatError):
    """A JSON text beyond MOST_VALUES; the text is one line."""


class ProvesNothingError(FormatError):
    """The content is sound and shows nothing; the text says what to bring instead."""


class Format(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of recorded answer."""

    id: str
    """Short name for messages: "nvidia-smi -q -x"."""
    recognises: Callable[[bytes, Path], bool]
    """Given the first 64 KiB and the path: is it this format? Content decides, not the name."""
    parse: Callable[[bytes, Path], PartialNode]
    """The whole file, or the section of a text, to a part. Raises FormatError."""
    starts: re.Pattern[str] | None = None
    """Where the output begins in a text that holds other things too, at the start of a line. None:
    it fills a file."""
    finds: Callable[[str], Iterable[int]] | None = None
    """Where its lines begin in a text, in place of `starts`, where each may stand alone between
    other things: there may be many such outputs, and of a long text only the lines with `needs` are
    kept."""
    needs: tuple[str, ...] = ()
    """Texts of which each such output in a text holds one; looking for them is quick.

    Without them it is looked for in any text, but not behind the first megabyte of a long one."""
    goes_on: re.Pattern[str] | None = None
    """A line that belongs to the output, below its first; empty lines do between such lines."""
    repeats: bool = False
    """Whether a second output adds to the first. Else it is another moment, or another machine."""
    together: bool = False
    """Whether all its outputs in a text are read as one: each holds a part of the same picture."""
    elsewhere: str = ""
    """What it is and which command explains it, where it says nothing of the node; `parse` is then
    not asked."""
    guessed: bool = False
    """Whether it is recognised by words that stand in other files too: then what cannot be parsed
    is not called broken."""
    yields: bool = False
    """Whether the first line of another format ends it, because any indented line goes on."""


def text_format(
    id: str,  # noqa: A002
    parse: Callable[[list[str]], PartialNode],
    starts: re.Pattern[str],
    *,
    most_bytes: int = TEXT_BYTES,
    **others: Any,
) -> Format:
    """A format that may be one of several in a text; `parse` is given the lines of its output."""

    def parse_data(data: bytes, path: Path) -> PartialNode:
        if len(data) > most_bytes:
            raise FormatError(f"{len(data)} bytes; the limit is {most_bytes}")
        part = parse(data.decode("utf-8", "replace").split("\n"))
        return _bounded(part, id) if len(part.measurements) > MOST_MEASURED else part

    def recognises(head: bytes, path: Path) -> bool:
        return starts.search(head.decode("utf-8", "replace")) is not None

    return Format(id=id, recognises=recognises, parse=parse_data, starts=starts, **others)


def _bounded(part: PartialNode, source: str) -> PartialNode:
    """Without the figures beyond MOST_MEASURED, which a problem tells."""
    text = f"{len(part.measurements):,} figures; the first {MOST_MEASURED:,} are kept"
    return msgspec.structs.replace(
        part,
        measurements=part.measurements[:MOST_MEASURED],
        problems=(*part.problems, Problem(source=source, kind=ProblemKind.CUT, text=text)),
    )


def json_values(data: bytes) -> Any:
    """A whole JSON text. Raises ValueError, and RecursionError where it nests too deep."""
    check_values(data)
    return json.loads(data)


def check_values(data: bytes) -> None:
    """Refuse a JSON text beyond MOST_VALUES before any value is made. Raises TooManyValuesError.

    A list or an object takes 20 times the memory of the two characters that it may be written in.
    """
    heavy = data.count(b"[") + data.count(b"{")
    if data.count(b",") + HEAVY * heavy > MOST_VALUES:
        raise TooManyValuesError(f"JSON of more than {MOST_VALUES:,} values, which is not read")


def recording(data: bytes, library: str) -> dict[str, Any]:
    """Read the JSON answers of a management library; raises FormatError for anything else."""
    try:
        raw = json_values(data)
    except FormatError:
        raise
    except json.JSONDecodeError as error:
        raise FormatError(f"not JSON: {error.msg}", line=error.lineno) from error
    except RecursionError as error:
        raise FormatError("JSON that is nested too deep") from error
    except ValueError as error:  # bytes that are no text, a number with thousands of digits
        raise FormatError(f"not JSON: {error}"[:200]) from error
    if not isinstance(raw, dict) or not isinstance(raw.get("devices"), list):
        raise FormatError(f'no list "devices" in it, which a recording of {library} has')
    return raw

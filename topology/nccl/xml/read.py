"""NCCL's and RCCL's topology XML as an Element. Any file is hostile until it is read.

Stricter than NCCL's own parser (graph/xml.cc) where a file cannot be meant, and looser where it
is plain XML that NCCL happens not to take (a declaration at the top, an escaped character).
"""

import re
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from xml.parsers import expat

from ...model.element import Element
from ...model.format import FormatError
from .attributes import complaint, number

MAX_BYTES = 8 * 1024 * 1024
MAX_DEPTH = 64
MAX_ELEMENTS = 40_000
"""NCCL itself stops at 256 (2.28) or 1024 per host; a 72-GPU domain of many hosts has more."""
MAX_DEVICES = 576
"""GPUs, and network devices: those of the largest NVLink domain that is announced."""
MAX_ATTRIBUTES = 16
MAX_CHARACTERS = 255
"""Of a name or value, as in NCCL (graph/xml.h:MAX_STR_LEN)."""

ALL = ""
"""Key under which elements of every name are counted."""
KEPT = 1024
"""Answers about names and values: large files repeat them thousands of times."""
VERSIONS = {1: "NCCL", 2: "RCCL"}
"""Value of `version` of the root, and whose it is (NCCL_TOPO_XML_VERSION of either)."""

_NAME = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)
_COMMENT = re.compile(rb"<!--.*?(?:-->|\Z)", re.DOTALL)
_FIRST = re.compile(rb"<(?:!DOCTYPE\s+)?([A-Za-z_][\w:.-]{0,63})")


def root_name(head: bytes) -> str | None:
    """The name of the first element in the beginning of a file, without parsing; None if none."""
    match = _FIRST.search(_COMMENT.sub(b"", head))
    return None if match is None else match[1].decode("ascii")


def read_topology(data: bytes, name: str) -> Element:
    """Read a whole topology XML; attributes and elements stay as they are, comments go.

    `name` is how messages call the file. Raises FormatError with a line.
    """
    if len(data) > MAX_BYTES:
        raise FormatError(f"{name} has {len(data)} bytes; the limit for this XML is {MAX_BYTES}")
    reader = _Reader()
    parser = _parser(reader)
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise FormatError(f"not XML: {expat.ErrorString(error.code)}", error.lineno) from error
    except FormatError as error:
        raise FormatError(str(error), parser.CurrentLineNumber) from error
    except (ValueError, LookupError) as error:
        raise FormatError(f"not XML: {error}"[:200], parser.CurrentLineNumber) from error
    if reader.root is None:
        raise FormatError("no element in it", 1)
    return reader.root


def check_topology(element: Element) -> None:
    """Hold an Element from elsewhere (a snapshot's JSON) to the same rules. Raises FormatError."""
    level, depth, counts = [element], 1, Counter[str]()
    _check_root(element.tag, element.attributes)
    while level:
        if depth > MAX_DEPTH:
            raise FormatError(f"elements nested deeper than {MAX_DEPTH}")
        for node in level:
            _count(counts, node.tag)
            _check(node.tag, node.attributes)
        level = [child for parent in level for child in parent.children]
        depth += 1


@dataclass(slots=True)
class _Open:
    """An element whose end was not seen yet."""

    tag: str
    attributes: tuple[tuple[str, str], ...]
    children: list[Element] = field(default_factory=list)


class _Reader:
    """Takes the parser's events; `read_topology` adds the line to what it refuses."""

    def __init__(self) -> None:
        self.root: Element | None = None
        self._open: list[_Open] = []
        self._counts: Counter[str] = Counter()

    def start(self, tag: str, attributes: list[str]) -> None:
        _count(self._counts, tag)
        if len(self._open) >= MAX_DEPTH:
            raise FormatError(f"elements nested deeper than {MAX_DEPTH}")
        pairs = tuple(zip(attributes[::2], attributes[1::2], strict=True))
        if not self._open:
            _check_root(tag, pairs)
        _check(tag, pairs)
        self._open.append(_Open(tag, pairs))

    def end(self, tag: str) -> None:
        done = self._open.pop()
        element = Element(tag=done.tag, attributes=done.attributes, children=tuple(done.children))
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.root = element

    def text(self, characters: str) -> None:
        if characters.strip():
            raise FormatError(f"text between elements: {characters.strip()[:40]!r}")


def _parser(reader: _Reader) -> expat.XMLParserType:
    parser = expat.ParserCreate()
    parser.ordered_attributes = True
    parser.buffer_text = True
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    parser.StartDoctypeDeclHandler = _refuse_dtd
    parser.EntityDeclHandler = _refuse_dtd
    parser.UnparsedEntityDeclHandler = _refuse_dtd
    parser.ExternalEntityRefHandler = _refuse_dtd
    parser.ProcessingInstructionHandler = _refuse_instruction
    return parser


def _refuse_dtd(*_: object) -> int:
    raise FormatError("a DTD or an entity in it: refused")


def _refuse_instruction(*_: object) -> None:
    raise FormatError("a processing instruction in it: refused")


def _count(counts: Counter[str], tag: str) -> None:
    counts[tag] += 1
    counts[ALL] += 1
    if counts[ALL] > MAX_ELEMENTS:
        raise FormatError(f"more than {MAX_ELEMENTS} elements")
    if tag in ("gpu", "net") and counts[tag] > MAX_DEVICES:
        raise FormatError(f"more than {MAX_DEVICES} <{tag}> elements")


def _check_root(tag: str, attributes: tuple[tuple[str, str], ...]) -> None:
    if tag == "graphs":
        raise FormatError("an NCCL graph XML (NCCL_GRAPH_FILE), not a topology")
    if tag != "system":
        raise FormatError(f"<{tag[:40]}> at the top; a topology XML has <system>")
    text = dict(attributes).get("version")
    version = number(text) if text is not None else None
    if version not in VERSIONS:
        said = "no version" if text is None else f"version {text[:40]!r}"
        raise FormatError(f"{said} of <system>; there are 1 (NCCL) and 2 (RCCL)")


def _check(tag: str, attributes: tuple[tuple[str, str], ...]) -> None:
    fault = _wrong_names(tag, tuple([name for name, _ in attributes]))
    if fault is not None:
        raise FormatError(fault)
    for name, value in attributes:
        fault = _wrong_value(tag, name, value)
        if fault is not None:
            raise FormatError(fault)


@lru_cache(KEPT)
def _wrong_names(tag: str, names: tuple[str, ...]) -> str | None:
    if len(tag) > MAX_CHARACTERS:
        return f"an element whose name has {len(tag)} characters"
    for text in (tag, *names):
        if not _NAME.fullmatch(text):
            return f"{text[:40]!r} of <{tag[:40]}> is no name of an element or attribute"
    if len(names) > len(set(names)):
        return f"<{tag[:40]}> has an attribute twice"
    if len(names) > MAX_ATTRIBUTES:
        return f"<{tag[:40]}> has {len(names)} attributes; NCCL reads {MAX_ATTRIBUTES}"
    return None


@lru_cache(KEPT)
def _wrong_value(tag: str, name: str, value: str) -> str | None:
    for text in (name, value):
        if len(text) > MAX_CHARACTERS:
            return f"{len(text)} characters in {name[:40]} of <{tag[:40]}>"
    wrong = complaint(tag, name, value)
    return None if wrong is None else f"{name}={value[:60]!r} of <{tag}> {wrong}"

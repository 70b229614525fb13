"""XML that tools print: read whole, within limits that no real output reaches. Any is hostile."""

from __future__ import annotations

from xml.etree.ElementTree import Element, ParseError, TreeBuilder

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import DefusedXMLParser

from ...model.format import FormatError

MAX_BYTES = 16 * 1024 * 1024
MAX_DEPTH = 32
MAX_ELEMENTS = 500_000


class _Limited(TreeBuilder):
    """A reader that stops at a depth and a number of elements."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self._deepest = depth
        self._depth = self._count = 0

    def start(self, tag: str, attrs: dict[str, str], /) -> Element:
        self._depth += 1
        self._count += 1
        if self._depth > self._deepest:
            raise FormatError(f"XML nested deeper than {self._deepest}")
        if self._count > MAX_ELEMENTS:
            raise FormatError(f"more than {MAX_ELEMENTS} XML elements")
        return super().start(tag, attrs)

    def end(self, tag: str, /) -> Element:
        self._depth -= 1
        return super().end(tag)


def read_xml(data: bytes, root_tag: str, depth: int = MAX_DEPTH) -> Element:
    """The document with this root. Raises FormatError, with the line where that is known."""
    if len(data) > MAX_BYTES:
        raise FormatError(f"{len(data)} bytes; the limit for this XML is {MAX_BYTES}")
    # The real files name a DTD without bringing one; entities and fetching stay forbidden.
    parser = DefusedXMLParser(target=_Limited(depth), forbid_entities=True, forbid_external=True)
    try:
        parser.feed(data)
        root = parser.close()
    except ParseError as error:
        raise FormatError(f"not XML: {error.msg}", line=error.position[0]) from error
    except DefusedXmlException as error:
        raise FormatError(f"XML that declares {type(error).__name__}: refused") from error
    except (ValueError, LookupError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"not XML: {error}"[:200]) from error
    if not isinstance(root, Element) or root.tag != root_tag:
        raise FormatError(f"no <{root_tag}> at the top")
    return root

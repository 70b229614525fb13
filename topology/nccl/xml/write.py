"""An Element as a topology XML, laid out as NCCL lays out its own dump.

Two blanks a level, double quotes, no declaration at the top, which NCCL's parser would refuse
(graph/xml.cc:ncclTopoDumpXmlRec).
"""

import re
from collections.abc import Iterator

from ...model.characters import HOSTILE, REPLACEMENT
from ...model.element import Element

_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})


def write_topology(element: Element) -> str:
    """Write an element and everything below it; reading the text gives an equal element.

    A control character that XML allows not even escaped becomes a replacement mark.
    """
    return "".join(_lines(element, ""))


def _lines(element: Element, indent: str) -> Iterator[str]:
    said = "".join(f' {name}="{_value(value)}"' for name, value in element.attributes)
    if not element.children:
        yield f"{indent}<{element.tag}{said}/>\n"
        return
    yield f"{indent}<{element.tag}{said}>\n"
    for child in element.children:
        yield from _lines(child, f"{indent}  ")
    yield f"{indent}</{element.tag}>\n"


def _value(text: str) -> str:
    return HOSTILE.sub(_reference, text.translate(_ESCAPES))


def _reference(found: re.Match[str]) -> str:
    """A reference to a character that XML allows, and a replacement mark for any other."""
    code = ord(found[0])
    allowed = code in (9, 10, 13) or 0x7F <= code < 0xD800 or 0xE000 <= code < 0xFFFE
    return f"&#{code};" if allowed or code > 0xFFFF else REPLACEMENT

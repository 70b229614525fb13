"""An Element as a topology XML, laid out as NCCL lays out its own dump.

Two blanks a level, double quotes, no declaration at the top, which NCCL's parser would refuse
(graph/xml.cc:ncclTopoDumpXmlRec).
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model.element import Element

_ESCAPES = str.maketrans(
    {
        "&": "&amp;",
        "<": "&lt;",
        ">": "&gt;",
        '"': "&quot;",
        "\t": "&#9;",
        "\n": "&#10;",
        "\r": "&#13;",
    }
)


def write_topology(element: Element) -> str:
    """Write an element and everything below it; reading the text gives an equal element."""
    return "".join(_lines(element, ""))


def _lines(element: Element, indent: str) -> Iterator[str]:
    said = "".join(f' {name}="{value.translate(_ESCAPES)}"' for name, value in element.attributes)
    if not element.children:
        yield f"{indent}<{element.tag}{said}/>\n"
        return
    yield f"{indent}<{element.tag}{said}>\n"
    for child in element.children:
        yield from _lines(child, f"{indent}  ")
    yield f"{indent}</{element.tag}>\n"

"""Mutations of an XML document that leave it one: elements, attributes, depth, its prolog."""

from __future__ import annotations

import copy
from random import Random
from xml.etree import ElementTree

from . import hostile
from .text_mutations import MOST_BYTES, octets

_DEPTHS = (5, 40, 150)
_PROLOGS = (
    b'<?xml version="1.0" encoding="utf-16"?>\n',
    b'<?xml version="1.0" encoding="utf-7"?>\n',
    b'<?xml version="1.0" encoding="x-none"?>\n',
    b'<?xml version="1.0" encoding="latin-1"?>\n',
    b'<?xml version="1.1"?>\n',
    b'<!DOCTYPE a [<!ENTITY b "bbbbbbbbbb"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;">]>\n',
    b'<!DOCTYPE a SYSTEM "file:///etc/passwd">\n',
    b'<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]>\n',
    b"<?other thing?>\n",
    b"<!-- a comment -->\n",
    b"\n \n",
)
_MARK = "MARKOFHERE"
_RAW = ("&#x9b;", "&#x85;", "&#x202e;", "&#x1b;", "&#0;", "&amp;lt;", "&b;", "<![CDATA[x]]>")
_DEEP = "<pci>" * 20_000 + "</pci>" * 20_000


def of_xml(data: bytes, rolls: Random) -> bytes:
    """Change one to four places, or the prolog; what is no XML stays as it is."""
    try:
        root = ElementTree.fromstring(data)
    except (ElementTree.ParseError, ValueError, LookupError):  # some of an unknown encoding
        return data
    if rolls.random() < 0.08:
        return rolls.choice(_PROLOGS) + ElementTree.tostring(root)
    for _ in range(rolls.choice((1, 1, 2, 4))):
        _change(root, rolls)
    text = ElementTree.tostring(root, encoding="unicode")
    return octets(text.replace(_MARK, rolls.choice((*_RAW, _DEEP))))


def _change(root: ElementTree.Element, rolls: Random) -> None:
    parents = [element for element in root.iter() if len(element)]
    if not parents:
        root.append(ElementTree.Element("gpu"))
        return
    parent = rolls.choice(parents)
    element = rolls.choice(list(parent))
    match rolls.randrange(10):
        case 0 | 1 | 2 | 3:
            _edge(root, rolls.choice(list(root.iter())), rolls)
        case 4:
            parent.remove(element)
        case 5:
            size = len(ElementTree.tostring(element))
            times = min(rolls.choice((1, 2, 10, 10_000)), MOST_BYTES // size)
            parent.extend([copy.deepcopy(element) for _ in range(times)])
        case 6:
            rolls.choice(list(root.iter())).append(copy.deepcopy(element))
        case 7:
            _nest(element, rolls)
        case 8:
            element.tag = rolls.choice(list(root.iter())).tag
        case _:
            other = rolls.choice(list(root.iter()))
            element.attrib, other.attrib = other.attrib, element.attrib
            element.text, other.text = other.text, element.text


def _edge(root: ElementTree.Element, element: ElementTree.Element, rolls: Random) -> None:
    """Another value of an attribute or another text: that of another element, or a hostile one."""
    others = [other for other in root.iter(element.tag) if other is not element]
    if others and rolls.random() < 0.4:
        other = rolls.choice(others)
        element.text = other.text
        for name in rolls.sample(list(element.attrib), min(1, len(element.attrib))):
            element.set(name, other.get(name, ""))
        return
    made = rolls.choice((hostile.number(rolls), hostile.number(rolls), hostile.text(rolls), _MARK))
    made = "".join(character for character in made if _writable(character))
    if not element.attrib or rolls.random() < 0.1:
        element.text = made
        return
    name = rolls.choice(list(element.attrib))
    if rolls.random() < 0.15:
        del element.attrib[name]
    else:
        element.set(name, made)


def _nest(element: ElementTree.Element, rolls: Random) -> None:
    """The element inside itself, many times."""
    inner = element
    for _ in range(rolls.choice(_DEPTHS)):
        outer = ElementTree.Element(element.tag, dict(element.attrib))
        inner.append(outer)
        inner = outer


def _writable(character: str) -> bool:
    """What XML 1.0 may hold: the rest would only test the parser."""
    return (
        character in "\t\n\r" or (" " <= character < "\ud800") or "\ue000" <= character < "\ufffe"
    )

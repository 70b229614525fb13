"""Inputs that say one thing many times: equal, or with one number that counts up; and shared parts.

What other mutations change by chance grows here on purpose, so that a reader whose work grows with
the square of its input is seen before its input is large.
"""

from __future__ import annotations

import copy
import gzip
import json
import pickle
import re
import tarfile
import zlib
from collections.abc import Callable
from random import Random
from typing import Any
from xml.etree import ElementTree

from . import tar_mutations

_DIGITS = re.compile(rb"\d+")
_MARK = b"MARKOFHERE"
_DEPTH = 25
_BLOCK = 6
"""Lines repeated together, at most."""


def repeated(name: str, data: bytes, rolls: Random, times: int) -> bytes:
    """Say a line, a block, an element or a member of the file `times` more often.

    The same rolls choose the same place, whatever `times` is; what cannot be read as its name says
    is repeated as a text.
    """
    for ends, change in _BY_NAME:
        if name.endswith(ends):
            try:
                return change(data, rolls, times)
            except _UNREADABLE:
                break
    return of_lines(data, rolls, times)


def copies(text: bytes, rolls: Random, times: int) -> list[bytes]:
    """A text `times` over: equal, with one of its numbers counted up, or with all of them."""
    spots = list(_DIGITS.finditer(text))
    chosen: list[re.Match[bytes]] = []
    kind = rolls.random()
    if spots and kind < 0.65:
        chosen = [rolls.choice(spots)]
    elif kind < 0.8:
        chosen = spots
    parts, end = [], 0
    for spot in chosen:
        parts.append(text[end : spot.start()])
        end = spot.end()
    tail = text[end:]
    made = []
    for number in range(times):
        counted = (
            part + str(int(spot[0][:15]) + number + 1).zfill(len(spot[0])).encode()
            for part, spot in zip(parts, chosen, strict=True)
        )
        made.append(b"".join(counted) + tail)
    return made


def of_lines(data: bytes, rolls: Random, times: int) -> bytes:
    """Repeat a block of lines where it stands."""
    lines = data.splitlines(keepends=True)
    if not lines:
        return data
    start = rolls.randrange(len(lines))
    block = b"".join(lines[start : start + rolls.randint(1, _BLOCK)])
    if not block.endswith(b"\n"):
        block += b"\n"
    return b"".join((*lines[:start], *copies(block, rolls, times), *lines[start:]))


def of_json(data: bytes, rolls: Random, times: int) -> bytes:
    """Repeat an element of a list, or a member of an object under other names."""
    document = json.loads(data)
    holders = [holder for holder in _holders(document) if len(holder)]
    holder = rolls.choice(holders)
    if isinstance(holder, dict):
        key = rolls.choice(list(holder))
        text = f"{json.dumps(key)}: {json.dumps(holder[key])}".encode()
        made = copies(text if _DIGITS.search(text) else b'"x0' + text[1:], rolls, times)
        holder[_MARK.decode()] = 0
        marked = b'"' + _MARK + b'": 0'
    else:
        place = rolls.randrange(len(holder))
        made = copies(json.dumps(holder[place]).encode(), rolls, times)
        holder.insert(place, _MARK.decode())
        marked = b'"' + _MARK + b'"'
    return json.dumps(document).encode().replace(marked, b", ".join(made or [marked]), 1)


def _holders(document: Any) -> list[Any]:
    """All lists and objects: of many that look alike, as the ranks of a job do, three."""
    found: dict[Any, list[Any]] = {}
    waiting: list[tuple[Any, Any]] = [("", document)]
    while waiting:
        shape, here = waiting.pop()
        if not isinstance(here, dict | list) or len(found.setdefault(shape, [])) == 3:
            continue
        found[shape].append(here)
        keys = here.items() if isinstance(here, dict) else enumerate(here)
        waiting += [((shape, key if isinstance(here, dict) else 0), value) for key, value in keys]
    return [holder for holders in found.values() for holder in holders]


def of_xml(data: bytes, rolls: Random, times: int) -> bytes:
    """Repeat an element beside itself."""
    root = ElementTree.fromstring(data)
    parent = rolls.choice([element for element in root.iter() if len(element)])
    place = rolls.randrange(len(parent))
    made = copies(ElementTree.tostring(parent[place]), rolls, times)
    parent.insert(place, ElementTree.Element(_MARK.decode()))
    return ElementTree.tostring(root).replace(b"<" + _MARK + b" />", b"".join(made), 1)


def of_tar(data: bytes, rolls: Random, times: int) -> bytes:
    """Repeat a member, or a folder with all that is in it, under other names."""
    members = tar_mutations.members(data)
    path = rolls.choice(members)[0].name.split("/")
    head = "/".join(path[: rolls.randint(1, len(path))])
    inside = [one for one in members if one[0].name == head or one[0].name.startswith(f"{head}/")]
    again = [*members]
    for name in copies(head.encode(), rolls, times // len(inside) or min(times, 1)):
        for member, content in inside:
            made = copy.copy(member)
            made.name = name.decode() + member.name[len(head) :]
            again.append((made, content))
    return gzip.compress(tar_mutations.packed(again), 1, mtime=0)


def of_pickle(data: bytes, rolls: Random, times: int) -> bytes:
    """Let a list of the pickle hold one of its elements many times: shared, or each its own."""
    document = pickle.loads(data)  # a recording of ours
    holder = rolls.choice([one for one in _holders(document) if isinstance(one, list) and one])
    element = rolls.choice(holder)
    kind = rolls.random()
    if kind < 0.4:
        holder += [element] * times
    elif kind < 0.5:  # shared within what is shared: small, and endless where it is walked
        for _ in range(times // _DEPTH or min(times, 1)):
            deep = element
            for _ in range(_DEPTH):
                deep = [deep, deep]
            holder.append(deep)
    else:
        text = json.dumps(element, default=str)
        holder += [json.loads(text) for _ in range(times)]
    return pickle.dumps(document)


_UNREADABLE = (
    *(ValueError, LookupError, SyntaxError, pickle.UnpicklingError),
    *(tarfile.TarError, OSError, EOFError, zlib.error),
)
_Change = Callable[[bytes, Random, int], bytes]
_BY_NAME: tuple[tuple[str | tuple[str, ...], _Change], ...] = (
    (".json", of_json),
    (".xml", of_xml),
    (".tar.gz", of_tar),
    (("_0", "_1", "_2", "_3", "_4", "_5", "_6", "_7", ".pickle"), of_pickle),
)

"""Mutations of a JSON document that leave it one: values, keys, lists, depth."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from . import hostile
from .text_mutations import MOST_BYTES, octets

_DEPTHS = (10, 500, 20_000)
_WHOLE = (0, -1, 1, 3, 64, 255, 10**6, 2**31, 2**53 + 1, 2**63 - 1, -(2**63))
_FRACTIONS = (0.0, -1.0, 0.5, 1e-320, 1e300)
_KEPT = 0.6
"""The share of changes that keep the type."""
_MARK = "\ue0aa"
"""Stands where text is put that `json` cannot write: depth, doubled keys, huge numbers."""


def of_json(data: bytes, rolls: Random) -> bytes:
    """Change one to four places; what is no JSON stays as it is."""
    try:
        document = json.loads(data)
    except ValueError:
        return data
    raw: dict[str, bytes] = {}
    for _ in range(rolls.choice((1, 1, 2, 4))):
        document = _changed(document, rolls, raw)
    text = octets(json.dumps(document, ensure_ascii=rolls.random() < 0.5))
    for mark, made in raw.items():
        for written in (octets(f'"{mark}"'), json.dumps(mark).encode()):
            text = _filled(text, written, made)
    return text


def _filled(text: bytes, mark: bytes, made: bytes) -> bytes:
    """Put a value in place of its mark, as often as fits where a list copied the mark; then 0."""
    room = max(1, (MOST_BYTES - len(text)) // max(1, len(made)))
    return text.replace(mark, made, room).replace(mark, b"0")


def _changed(document: Any, rolls: Random, raw: dict[str, bytes]) -> Any:
    """Change one place."""
    path = _path(document, rolls) if isinstance(document, dict | list) else []
    if not path:
        return _value(document, rolls, raw)
    holder, key = path[-1]
    here = holder[key]
    if rolls.random() < _KEPT and isinstance(here, str | int | float):
        holder[key] = _edge(here, rolls)
        return document
    action = rolls.randrange(12)
    if action == 0:
        del holder[key]
    elif action == 1 and isinstance(holder, dict):
        holder[hostile.text(rolls)] = holder.pop(key)
    elif action == 2 and isinstance(holder, dict):
        # A key doubled: the second value stands behind the first.
        again = json.dumps([_value(here, rolls, {})])[1:-1]
        value = f"{json.dumps(here)}, {json.dumps(key)}: {again}"
        holder[key] = _put(value.encode(), raw)
    elif action == 3:
        other = (
            rolls.choice(list(holder)) if isinstance(holder, dict) else rolls.randrange(len(holder))
        )
        holder[key], holder[other] = holder[other], here
    elif action == 4:
        holder[key] = _many(here)
    elif action == 5 and len(path) > 1:
        outer, place = rolls.choice(path[:-1])
        holder[key] = json.loads(json.dumps(outer[place])) if len(path) < 40 else None
    else:
        holder[key] = _value(here, rolls, raw)
    return document


def _path(document: Any, rolls: Random) -> list[tuple[Any, Any]]:
    """Where to change: any place alike, or a way down that chooses at every level."""
    if rolls.random() < 0.5:
        places = _places(document)
        return [rolls.choice(places)] if places else []
    path: list[tuple[Any, Any]] = []
    here = document
    while isinstance(here, dict | list) and here and (not path or rolls.random() < 0.95):
        key = rolls.choice(list(here)) if isinstance(here, dict) else rolls.randrange(len(here))
        path.append((here, key))
        here = here[key]
    return path


def _places(document: Any) -> list[tuple[Any, Any]]:
    """Every value, as what holds it and its key."""
    found: list[tuple[Any, Any]] = []
    waiting = [document]
    while waiting and len(found) < 100_000:
        here = waiting.pop()
        keys = here if isinstance(here, dict) else range(len(here))
        found += [(here, key) for key in keys]
        waiting += [here[key] for key in keys if isinstance(here[key], dict | list)]
    return found


def _edge(here: Any, rolls: Random) -> Any:
    """A value of the same type: what has a schema takes it, and has to live with it."""
    if isinstance(here, str):
        return hostile.number(rolls) if rolls.random() < 0.2 else hostile.text(rolls)
    if isinstance(here, bool):
        return not here
    edges = _WHOLE if isinstance(here, int) else _FRACTIONS
    return rolls.choice((*edges, here - 1, here + 1, here * 2))


def _value(here: Any, rolls: Random, raw: dict[str, bytes]) -> Any:
    """Another value, mostly of another type."""
    match rolls.randrange(10):
        case 0 | 1:
            return _put(hostile.number(rolls).encode(), raw)
        case 2:
            return hostile.number(rolls)
        case 3 | 4:
            return hostile.text(rolls)
        case 5:
            return rolls.choice((None, True, False, "", [], {}))
        case 6:
            depth = rolls.choice(_DEPTHS)
            opens, closes = rolls.choice((("[", "]"), ('{"a":', "}")))
            return _put((opens * depth + "0" + closes * depth).encode(), raw)
        case 7:
            return [here]
        case 8:
            return {"value": here, "unit": hostile.text(rolls)}
        case _:
            return str(here) if not isinstance(here, str) else rolls.choice((0, -1, 1.5, 2**64))


def _many(here: Any) -> list[Any]:
    """A list of ten thousand, or of as many as fit; what changes one of them leaves the others."""
    text = json.dumps(here)
    times = min(10_000, MOST_BYTES // (len(text) + 2) + 1)
    many: list[Any] = json.loads(f"[{', '.join([text] * times)}]")
    return many


def _put(made: bytes, raw: dict[str, bytes]) -> str:
    mark = f"{_MARK}{len(raw)}{_MARK}"
    raw[mark] = made
    return mark

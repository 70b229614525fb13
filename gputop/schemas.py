"""JSON Schemas of all documents that gputop prints or reads, made of the records themselves."""

from __future__ import annotations

import sys
import typing
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from inspect import cleandoc
from pkgutil import iter_modules
from typing import Any, Literal

import msgspec

from gputop import answers
from gputop.answers.question import Reply
from gputop.checking.policy import SiteFile
from gputop.exits import USAGE, Exit
from gputop.terminal.clean import clean
from gputop.terminal.nearest import instead
from gputop.topology.fleet.draining import Drain
from gputop.topology.fleet.finding import FleetFinding
from gputop.topology.fleet.grouping import AlikeNodes
from gputop.topology.fleet.planning.culprits import CulpritKind, Direction
from gputop.topology.fleet.planning.looks import NetLook
from gputop.topology.fleet.planning.plan import PlanVerdict
from gputop.topology.fleet.section import FleetSection
from gputop.topology.fleet.since import HostChange
from gputop.topology.model.machine import PciKind
from gputop.topology.model.severity import FigureBasis, NodeState, OpenWord, Verdict
from gputop.topology.model.snapshot import SCHEMA, NodeSnapshot
from gputop.topology.sketch.tree import ItemKind
from gputop.topology.wiring.drives import DriveRow
from gputop.topology.wiring.wires import Wire

POLICY = "gputop.policy/1"
"""Of check.toml, which is no JSON and names no schema."""
DRAFT = "https://json-schema.org/draft/2020-12/schema"
ONE_PROBE = "MeasuredAnswerDocument"
"""What a document of several probes holds of each."""
Schema = dict[str, Any]


class _Printed(msgspec.Struct, kw_only=True):
    """What documents begin with that are no record, but plain data."""

    gputop: str
    source: tuple[str, ...]
    assumptions: tuple[str, ...]


class _TopoNode(msgspec.Struct):
    id: str
    kind: ItemKind
    label: str


class _TopoDevice(msgspec.Struct):
    label: str
    address: str
    kind: PciKind
    cpu_affinity: str | None
    numa_affinity: str | None
    gpu_numa_id: int | None


class _TopoMatrix(msgspec.Struct):
    alphabet: str
    devices: tuple[_TopoDevice, ...]
    nics: dict[str, str]
    cells: tuple[tuple[str, ...], ...]


def _whole(name: str, record: type[msgspec.Struct], **other: Any) -> Any:
    """A record of which a document has every field, with these instead or besides."""
    return msgspec.defstruct(name, (typing.get_type_hints(record) | other).items())


if typing.TYPE_CHECKING:
    _TopoEdge: typing.TypeAlias = Any
    _TopoDrive: typing.TypeAlias = Any
else:
    _TopoEdge = _whole("_TopoEdge", Wire, a=str, b=str)
    _TopoDrive = _whole("_TopoDrive", DriveRow, cells=dict[str, str])


class _Topo(_Printed, tag="gputop.topo/1"):
    """How the devices of a node are connected; printed by `gputop topo --json`."""

    nodes: tuple[_TopoNode, ...]
    edges: tuple[_TopoEdge, ...]
    drives: tuple[_TopoDrive, ...]
    islands: tuple[tuple[str, ...], ...]
    matrix: _TopoMatrix


class _FleetFigure(msgspec.Struct, rename={"over": "kind"}):
    figure: str
    over: str
    unit: str
    product: str
    nodes: int
    median: float
    mad: float
    limit: float | None
    healthy: float | None
    low: float | None
    basis: FigureBasis
    outliers: tuple[Any, ...]


class _FleetHost(msgspec.Struct):
    state: NodeState
    file: str | None
    findings: tuple[str, ...]


def _folded(record: type[msgspec.Struct], **other: Any) -> Any:
    """A record about nodes as a document has it: their names folded into one text."""
    hints = typing.get_type_hints(record) | {"hosts": str} | other
    fields: list[Any] = [
        (field.name, hints[field.name])
        if field.required or field.name in other
        else (field.name, hints[field.name], msgspec.UNSET)
        for field in msgspec.structs.fields(record)
    ]
    known = {field.name for field in msgspec.structs.fields(record)}
    fields += [(name, hint) for name, hint in other.items() if name not in known]
    names = dict(zip(record.__struct_fields__, record.__struct_encode_fields__, strict=True))
    return msgspec.defstruct(f"Folded{record.__name__}", fields, kw_only=True, rename=names)


if typing.TYPE_CHECKING:
    _FoldedFinding: typing.TypeAlias = Any
    _FoldedNodes: typing.TypeAlias = Any
    _FoldedDrain: typing.TypeAlias = Any
else:
    _FoldedFinding = _folded(FleetFinding, count=int)
    _FoldedNodes = _folded(AlikeNodes, count=int)
    _FoldedDrain = _folded(Drain)


class _Culprit(msgspec.Struct):
    kind: CulpritKind
    hosts: tuple[str, ...]
    rail: int | None
    switch: str | None
    direction: Direction | None
    fails: bool
    said: str
    because: str


class _Suspect(msgspec.Struct):
    host: str
    rails: tuple[int, ...]
    bad_looks: int


class _FleetLinks(msgspec.Struct):
    looks: int
    unfinished: int
    culprits: tuple[_Culprit, ...]
    suspects: tuple[str, ...]
    doubts: tuple[str, ...]


class _FleetChange(msgspec.Struct):
    worse: tuple[HostChange, ...]
    better: tuple[HostChange, ...]
    other: tuple[HostChange, ...]
    came: tuple[_FoldedFinding, ...]
    gone: tuple[_FoldedFinding, ...]


class _Fleet(_Printed, tag="gputop.fleet/1"):
    """Many nodes judged together; printed by `gputop fleet DIR --json`."""

    verdict: Verdict
    exit_code: int
    counts: dict[str, int]
    expected: str | None
    findings: tuple[_FoldedFinding, ...]
    hosts: dict[str, _FleetHost]
    groups: tuple[_FoldedNodes, ...]
    figures: tuple[_FleetFigure, ...]
    drain: tuple[_FoldedDrain, ...]
    pairs: tuple[str, ...]
    links: _FleetLinks
    change: _FleetChange | None


class _PlanPair(msgspec.Struct):
    a: str
    b: str
    looks: int | msgspec.UnsetType = msgspec.UNSET
    why: str | msgspec.UnsetType = msgspec.UNSET


class _Plan(msgspec.Struct, tag="gputop.fleet-plan/1", kw_only=True):
    """Which pairs of nodes to measure next; later rounds read what they need of it."""

    gputop: str
    round: int
    hosts: str
    pairs: tuple[_PlanPair, ...]
    sets: tuple[tuple[str, ...], ...]
    source: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    verdict: PlanVerdict | msgspec.UnsetType = msgspec.UNSET
    strategy: str = ""
    topology: str | None = None
    cost: dict[str, float] = {}
    culprits: tuple[_Culprit, ...] = ()
    suspects: tuple[_Suspect, ...] = ()
    doubts: tuple[str, ...] = ()


class _ProbeRuns(_Printed, tag="gputop.probe/1"):
    """Several probes; `runs` holds a document of this schema for each."""

    simulated: bool
    runs: tuple[dict[str, Any], ...]


class _NoAnswer(msgspec.Struct, tag="gputop.no-answer/1"):
    """Why there is no answer, where JSON was asked for."""

    gputop: str
    exit_code: int
    why: str


_PLAIN = (_Topo, _Fleet, _Plan, _ProbeRuns, _NoAnswer)
_MADE_LATER = ("FleetAnswer", "SuiteAnswer")
"""Answers whose document is made when it is asked for; their fields say nothing of it."""


def named(tag: str) -> str:
    """The name of a document: "check" of "gputop.check/1"."""
    return tag.removeprefix("gputop.").partition("/")[0]


@cache
def documents() -> dict[str, tuple[type[msgspec.Struct], ...]]:
    """The schema of each document ("gputop.check/1") -> the records that are one, by name."""
    for module in iter_modules(answers.__path__):
        import_module(f"gputop.answers.{module.name}")
    found: dict[str, list[type[msgspec.Struct]]] = {SCHEMA: [NodeSnapshot]}
    for kind in _ours(Reply):
        tag = kind.__struct_config__.tag
        of_json = isinstance(tag, str) and tag.startswith("gputop.")
        if of_json and kind.__name__ not in _MADE_LATER:
            found.setdefault(tag, []).append(_shown(kind))
    found.setdefault("gputop.net/1", []).append(NetLook)
    found[POLICY] = [SiteFile]
    for plain in _PLAIN:
        tag = str(plain.__struct_config__.tag)
        found.setdefault(tag, []).append(_tagged(plain, tag))
    # A class that was made twice in this process counts once: of equal names no schema is made.
    return {
        tag: tuple({kind.__name__: kind for kind in found[tag]}.values()) for tag in sorted(found)
    }


def tag_of(name: str) -> str:
    """The newest schema of a document by its name, or one by its tag. Raises Exit."""
    if name in documents():
        return name
    known = {named(tag): tag for tag in documents()}
    if name not in known:
        hint = instead(name, tuple(known), "gputop schema")
        raise Exit(f"no document {clean(name, 60)!r}{hint}", USAGE)
    return known[name]


def schema_of(tag: str) -> Schema:
    """The JSON Schema of a document, with all that it refers to."""
    kinds = documents()[tag]
    roots, parts = msgspec.json.schema_components(
        kinds, schema_hook=_anything, ref_template="#/$defs/{name}"
    )
    words = {word.__name__ for word in _ours(OpenWord)}
    for name in words & parts.keys():
        # A later version may say another word.
        parts[name] = {"type": "string", "examples": parts[name]["enum"]}
    for kind in _ours(Reply):
        _hide(parts.get(kind.__name__, {}), kind)
    if FleetSection.__name__ in parts:
        parts[FleetSection.__name__]["properties"]["snapshot"] = {"type": ["object", "null"]}
    if ONE_PROBE in parts:
        runs = parts["ProbeRuns"]["properties"]["runs"]
        runs["items"] = {"$ref": f"#/$defs/{ONE_PROBE}"}
    for root in roots:
        if tag != POLICY:
            _followed(root, parts)["properties"]["schema"] = {"const": tag}
    root = roots[0] if len(roots) == 1 else {"anyOf": list(roots)}
    used = _used(root, parts)
    for name in used:
        if told := parts[name].get("description"):
            parts[name]["description"] = cleandoc(told)  # Python 3.13 has it without the margin
    return {"$schema": DRAFT, "$id": tag, **root, "$defs": {name: parts[name] for name in used}}


def breaks(old: Schema, new: Schema) -> tuple[str, ...]:
    """What a new schema of the same version takes from whoever relies on the old one.

    Something more in a document breaks nothing.
    """
    return tuple(_breaks("", old, new, old.get("$defs", {}), new.get("$defs", {}), frozenset()))


def _breaks(
    at: str, old: Schema, new: Schema, old_parts: Schema, new_parts: Schema, seen: frozenset[str]
) -> Iterator[str]:
    if (ref := str(old.get("$ref", ""))) in seen:
        return
    seen = seen | {ref} if ref else seen
    old, new = _followed(old, old_parts), _followed(new, new_parts)
    for name, inner in old.get("properties", {}).items():
        if name not in new.get("properties", {}):
            yield f"{at}/{name}: is gone"
            continue
        later = new["properties"][name]
        yield from _breaks(f"{at}/{name}", inner, later, old_parts, new_parts, seen)
    yield from _own_breaks(at, old, new)
    for key in ("items", "additionalProperties"):
        if isinstance(old.get(key), dict) and isinstance(new.get(key), dict):
            yield from _breaks(f"{at}/*", old[key], new[key], old_parts, new_parts, seen)
    for key in ("anyOf", "prefixItems"):
        for place, inner in enumerate(old.get(key, ())):
            if place >= len(new.get(key, ())):
                yield f"{at}: a choice is gone"
                break
            yield from _breaks(at, inner, new[key][place], old_parts, new_parts, seen)


def _own_breaks(at: str, old: Schema, new: Schema) -> Iterator[str]:
    """What breaks in a schema itself, without those inside it."""
    for key in ("type", "const"):
        if key in new and old.get(key, new[key]) != new[key]:
            yield f"{at}: {key} {old[key]} became {new[key]}"
    if gone := [word for word in old.get("enum", ()) if word not in new.get("enum", (word,))]:
        yield f"{at}: {', '.join(map(str, gone))} may not be said any more"
    for name in old.get("required", ()):
        if name in new.get("properties", {}) and name not in new.get("required", ()):
            yield f"{at}/{name}: may be missing"
    for name in new.get("required", ()):
        if name in old.get("properties", {}) and name not in old.get("required", ()):
            yield f"{at}/{name}: may not be missing"


def _followed(schema: Schema, parts: Schema) -> Schema:
    found: Schema = parts.get(str(schema.get("$ref", "")).rpartition("/")[2], schema)
    return found


def _ours(kind: type) -> Iterator[type[Any]]:
    """The classes below one that the modules of this package hold.

    What a plugin adds is that distribution's to describe. A module whose first import failed has
    made its classes twice; the first ones are nobody's.
    """
    for lower in _below(kind):
        module = lower.__module__
        held = getattr(sys.modules.get(module), lower.__name__, None)
        if held is lower and module.partition(".")[0] == "gputop":
            yield lower


def _below(kind: type) -> Iterator[type[Any]]:
    lower: type[Any]
    for lower in kind.__subclasses__():
        yield lower
        yield from _below(lower)


def _shown(kind: type[Reply]) -> type[msgspec.Struct]:
    """The document of an answer: its fields without those that are hidden."""
    tag = str(kind.__struct_config__.tag)
    hints = typing.get_type_hints(kind, include_extras=True)
    fields: list[Any] = [
        (name, hints[name], *_default(hints[name]))
        for name in kind.__struct_fields__
        if name not in kind.hidden
    ]
    names = dict(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True))
    return _struct(f"{kind.__name__}Document", fields, tag, kind.__doc__, names)


def _tagged(plain: type[msgspec.Struct], tag: str) -> type[msgspec.Struct]:
    """A document of plain data, whose field `schema` holds its tag."""
    hints = typing.get_type_hints(plain)
    fields: list[Any] = [
        (field.name, hints[field.name]) if field.required else (field.name, hints[field.name], None)
        for field in msgspec.structs.fields(plain)
    ]
    return _struct(plain.__name__.strip("_"), fields, tag, plain.__doc__, {})


def _struct(
    name: str, fields: list[Any], tag: str, told: str | None, names: dict[str, str]
) -> type[msgspec.Struct]:
    schema = ("schema", Literal[tag])
    kind = msgspec.defstruct(name, [schema, *fields], kw_only=True, rename=names)
    kind.__doc__ = told
    return kind


def _default(hint: Any) -> tuple[Any, ...]:
    """An answer has all its fields, but those that may be unset."""
    return (msgspec.UNSET,) if msgspec.UnsetType in typing.get_args(hint) else ()


def _hide(part: Schema, kind: type[Reply]) -> None:
    """Take the hidden fields from an answer that lies inside another one."""
    names = dict(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True))
    for name in kind.hidden:
        part.get("properties", {}).pop(names[name], None)
        if names[name] in part.get("required", ()):
            part["required"].remove(names[name])


def _anything(kind: type) -> Schema:
    return {"description": f"{kind.__name__}: plain data"}


def _used(root: Schema, parts: Schema) -> list[str]:
    """The names of all parts that a schema refers to, in their order."""
    found: set[str] = set()
    left: list[Any] = [root]
    while left:
        item = left.pop()
        if isinstance(item, dict):
            name = str(item.get("$ref", "")).rpartition("/")[2]
            if name and name not in found:
                found.add(name)
                left.append(parts[name])
            left += item.values()
        elif isinstance(item, list | tuple):
            left += item
    return [name for name in parts if name in found]

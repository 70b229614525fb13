"""Reads a network from text: Slurm's topology.conf and topology.yaml, or lines "leaf: hosts".

The formats are those of Slurm's manual pages topology.conf(5) and topology.yaml(5): topology/tree
with SwitchName=, Nodes= and Switches=, topology/block with BlockName= and Nodes=. Names of
parameters ignore case, "#" begins a comment, a backslash at the end continues a line. Of YAML the
subset is read that these pages use: mappings with one plain value, in block or flow style.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from ..hosts import LIMIT_HOSTS, expand, in_order
from .fabric import SwitchFabric, fabric_of

LIMIT_BYTES = 16 * 1024 * 1024
"""Largest file that is read; that of 100,000 nodes, one name a line, is smaller."""
MOST_NAMES = 2 * LIMIT_HOSTS
"""Of nodes and switches in all lines of one file, repeats counted."""
_CONF = re.compile(r"(?im)^[^\S\n]*(?:SwitchName|BlockName|RingName)\s*=")
_YAML = re.compile(r"(?m)^[^\S\n]*(?:-[^\S\n]*(?:\{[^\S\n]*)?)?(?:topology|switches|blocks)\s*:")
_PAIR = re.compile(r"\b(\w+)\s*=\s*(\"[^\"]*\"|\S+)")
_ENTRY = re.compile(r"([A-Za-z_]+)\s*:(?:\s+(.*))?")
_LAST_NUMBER = re.compile(r"\d+(?=\D*$)")


def fabric_from(text: str, source: str) -> SwitchFabric:
    """The network that a text describes, recognised by its content.

    Raises ValueError with a sentence, and the line where there is one.
    """
    if _CONF.search(text):
        return _from_conf(text, source)
    if _YAML.search(text):
        return _from_yaml(text, source)
    return _from_lines(text, source)


def fabric_guessed(hosts: Iterable[str], size: int | None = None) -> SwitchFabric:
    """Leaves guessed from names: hosts that differ in their last number alone, or runs of `size`.

    Raises ValueError where the names show no groups.
    """
    ordered = in_order(hosts)
    leaf_of: dict[str, str] = {}
    if size is not None:
        for place, host in enumerate(ordered):
            leaf_of[host] = f"run{place // size + 1}"
        why = f"leaves are guessed: runs of {size} nodes in the order of their names"
    else:
        for host in ordered:
            found = _LAST_NUMBER.search(host)
            leaf_of[host] = host if found is None else host[: found.start()].rstrip("-_.")
        if len(set(leaf_of.values())) < 2:
            raise ValueError("the names show no groups: give names/32 for runs of 32 nodes")
        why = "leaves are guessed from names: nodes that differ in the last number share one"
    return SwitchFabric(source="names", leaf_of=leaf_of, assumption=why)


@dataclass(frozen=True, slots=True)
class _Tree:
    """What one topology of a file says."""

    word: str = "leaf"
    nodes: dict[str, dict[str, None]] = field(default_factory=dict)
    """Switch -> what hangs on it, each once."""
    children: dict[str, dict[str, None]] = field(default_factory=dict)
    default: bool = False


class _Names:
    """All names of one file; ValueError where it has too many."""

    def __init__(self) -> None:
        self._left = MOST_NAMES

    def add(self, switches: dict[str, dict[str, None]], name: str, text: str) -> None:
        """Hang what a list names on a switch."""
        found = expand(text)
        self._left -= len(found)
        if self._left < 0:
            raise ValueError(f"up to here are more than {MOST_NAMES} names, the limit of one file")
        switches.setdefault(name, {}).update(dict.fromkeys(found))


def _from_conf(text: str, source: str) -> SwitchFabric:
    """Slurm's topology.conf."""
    tree, names = _Tree(), _Names()
    kinds = set()
    for number, line in _joined(text):
        fields = {key.lower(): value.strip('"') for key, value in _PAIR.findall(line)}
        kind = next((k for k in ("switchname", "blockname", "ringname") if k in fields), None)
        if kind is None:
            continue
        kinds.add(kind)
        name = fields[kind]
        try:
            if "nodes" in fields:
                names.add(tree.nodes, name, fields["nodes"])
            if "switches" in fields:
                names.add(tree.children, name, fields["switches"])
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from error
    return _built(replace(tree, word="leaf" if "switchname" in kinds else "block"), source)


def _joined(text: str) -> Iterator[tuple[int, str]]:
    """Lines without comments, those that a backslash continues as one, with their numbers."""
    before, first = "", 0
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.partition("#")[0].rstrip()
        first = first or number
        if line.endswith("\\"):
            before += line[:-1]
            continue
        yield first, before + line
        before, first = "", 0
    if before:
        yield first, before


def _from_yaml(text: str, source: str) -> SwitchFabric:
    """Slurm's topology.yaml: the default topology, or the first one with switches or blocks."""
    trees: list[_Tree] = []
    names = _Names()
    entry = ""
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.partition("#")[0]
        if "\t" in line[: len(line) - len(line.lstrip())]:
            raise ValueError(f"line {number}: YAML is indented by spaces, not by tabs")
        for key, value in _entries(line):
            if key == "topology" or not trees:
                trees.append(_Tree())
            tree = trees[-1]
            try:
                if key == "cluster_default":
                    trees[-1] = replace(tree, default=value.lower() in ("true", "yes", "on"))
                elif key in ("switch", "block") and value:
                    entry = value
                    trees[-1] = replace(tree, word="leaf" if key == "switch" else "block")
                elif key == "nodes" and entry:
                    names.add(tree.nodes, entry, value)
                elif key == "children" and entry:
                    names.add(tree.children, entry, value)
            except ValueError as error:
                raise ValueError(f"line {number}: {error}") from error
    ordered = sorted(trees, key=lambda tree: (not tree.nodes, not tree.default))
    return _built(ordered[0], source)


def _entries(line: str) -> Iterator[tuple[str, str]]:
    """Keys and plain values of one line, in block or flow style."""
    body = line.strip().removeprefix("- ").strip()
    parts = [body]
    if body.startswith("{"):
        parts = re.split(r",\s*(?=[A-Za-z_]+\s*:\s)", body.strip("{} "))
    for part in parts:
        found = _ENTRY.fullmatch(part.strip())
        if found is None:
            continue
        value = (found[2] or "").strip()
        if value.startswith("[") and value.endswith("]"):
            value = ",".join(piece.strip(" '\"") for piece in value[1:-1].split(","))
        yield found[1].lower(), value.strip("'\"")


def _from_lines(text: str, source: str) -> SwitchFabric:
    """Lines "leaf: hosts"; a line whose names are all leaves of other lines is a switch above."""
    named: dict[str, dict[str, None]] = {}
    names = _Names()
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.partition("#")[0].strip()
        if not line:
            continue
        name, colon, hosts = line.partition(":")
        if not colon or not name.strip() or any(char.isspace() for char in name.strip()):
            raise ValueError(
                f"line {number} is no line of topology.conf or topology.yaml, and not"
                ' "leaf: hosts" either'
            )
        try:
            names.add(named, name.strip(), hosts)
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from error
    upper = {name for name, members in named.items() if members and members.keys() <= named.keys()}
    tree = _Tree(
        nodes={name: members for name, members in named.items() if name not in upper},
        children={name: members for name, members in named.items() if name in upper},
    )
    return _built(tree, source)


def _built(tree: _Tree, source: str) -> SwitchFabric:
    return fabric_of(source, tree.nodes, tree.children, tree.word)

"""The expected node: a reference node of the tables, or the snapshot of a healthy sister."""

from __future__ import annotations

import re
from functools import cache, cached_property
from typing import Any

from ..hardware.specs import skus, table
from ..hardware.unconfirmed import unconfirmed
from ..model.errors import GputopError
from ..model.snapshot import NodeSnapshot
from ..node import Node
from ..recorded.demos import shape

LINK_LETTERS = ("NV", "XGMI")
"""Prefixes of letters that mean links between GPUs; all others mean PCIe."""
_CLOUDS = ("aws", "gcp", "azure", "oci", "coreweave", "lambda", "nebius")
"""Prefix of names in nodes.toml, which users leave out."""
_RDMA = re.compile(r"InfiniBand|ConnectX|\bEFA v|RoCE|BlueField|Thor|Pollara")
"""Kinds of NIC in nodes.toml that the kernel's RDMA layer names."""


class UnknownReferenceError(GputopError, ValueError):
    """No reference node has that name."""


class Reference:
    """The node to compare with. A field is None where the reference does not say."""

    def __init__(
        self,
        name: str,
        facts: dict[str, Any] | None = None,
        sister: NodeSnapshot | None = None,
    ) -> None:
        """Make it from an entry of nodes.toml, or from a healthy node's snapshot."""
        self.name = name
        self.sister = sister
        self._facts = facts or {}
        self._unconfirmed = frozenset(self._facts.get("unconfirmed", ()))

    @property
    def source(self) -> str:
        """Its origin, for evidence."""
        return "nodes.toml" if self.sister is None else f"snapshot {self.name}"

    @property
    def unconfirmed(self) -> tuple[str, ...]:
        """What no source confirms, in words; () of a sister, which was read."""
        return () if self.sister is not None else unconfirmed(self.name)

    @property
    def gpus(self) -> int | None:
        """How many GPUs it has."""
        if self.sister is not None:
            return len(self.sister.machine.gpus)
        return self._number("gpus")

    @property
    def models(self) -> tuple[str, ...]:
        """Names in specs.toml, one of which every GPU has; () of a sister."""
        return tuple(self._known("sku") or ())

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Product names of a sister's GPUs, each once, as their driver says them.

        A GPU that no driver named has its name from a list of PCI ids, in other words.
        """
        gpus = () if self.sister is None else self.sister.machine.gpus
        return tuple(dict.fromkeys(gpu.name for gpu in gpus if gpu.name and gpu.uuid))

    @property
    def links_per_gpu(self) -> int | None:
        """NVLinks, or xGMI links, of each GPU; a sister's are compared pair by pair."""
        return self._number("links_per_gpu")

    @property
    def ports(self) -> int | None:
        """RDMA ports of the compute fabric."""
        if self.sister is not None:
            return sum(len(device.ports) for device in self.sister.machine.rdma)
        kind = self._facts.get("nic_kind", "")
        return self._number("nics") if _RDMA.search(kind) and "no EFA" not in kind else None

    @property
    def port_gbit(self) -> float | None:
        """Rate of each of these ports; of a sister the slowest that is active."""
        if self.sister is not None:
            rates = [
                port.rate_gbit
                for device in self.sister.machine.rdma
                for port in device.ports
                if port.rate_gbit is not None and port.active
            ]
            return min(rates, default=None)
        return None if self.ports is None else self._known("nic_gbit")

    def code(self, first: int, second: int, gpus: int) -> str | None:
        """Relation of two GPUs by their places in PCI order, of a node with so many GPUs.

        "PCIe" where no link joins them and the way over PCIe is not known. None where it cannot
        be said.
        """
        if self.sister is not None:
            return self._sister_letters(first, second) if gpus == self.gpus else None
        said: str | None = self._known("topo_pair")
        if said == "matrix":
            rows = self._matrix
            if rows is None or len(rows) != gpus:
                return None
            return f"NV{rows[first][second]}" if rows[first][second] else "PCIe"
        if said == "mixed":
            allowed = self._known("topo_allowed")
            return None if allowed is None else "PCIe"
        return said

    @cached_property
    def _matrix(self) -> list[list[int]] | None:
        of = self._known("topo_matrix_of")
        if of is not None:
            found = table("nodes")["node"][of].get("topo_matrix")
        else:
            found = self._known("topo_matrix")
        return None if found is None else [list(row) for row in found]

    @cached_property
    def _node(self) -> Node | None:
        return None if self.sister is None else Node(self.sister)

    def _sister_letters(self, first: int, second: int) -> str | None:
        if self._node is None:
            return None
        gpus = self._node.snapshot.machine.gpus
        cell = self._node.matrix.cell(gpus[first].address, gpus[second].address)
        return None if cell is None or cell.code == "?" else cell.code

    def _number(self, key: str) -> int | None:
        found = self._known(key)
        return None if found is None else int(found)

    def _known(self, key: str) -> Any:
        return None if key in self._unconfirmed else self._facts.get(key)


def of_snapshot(snapshot: NodeSnapshot, name: str) -> Reference:
    """A healthy sister, by the name that people gave."""
    return Reference(name, sister=snapshot)


def named(name: str) -> Reference:
    """A reference node by its name, an alias, its type alone ("p5.48xlarge"), or a demo's name.

    Capitals and blanks do not matter. Raises UnknownReferenceError.
    """
    key = _plain(name)
    known = _keys()
    found = known.get(key)
    if found is None:
        found = next(
            (known[f"{cloud}-{key}"] for cloud in _CLOUDS if f"{cloud}-{key}" in known), None
        )
    if found is None:
        raise UnknownReferenceError(f"no reference node {name[:60]!r}")
    return Reference(found, facts=table("nodes")["node"][found])


def every_name() -> tuple[str, ...]:
    """All names that `named` takes, as they are typed, aliases and demos too."""
    return tuple(_keys())


def names() -> tuple[str, ...]:
    """The names that `named` takes, as they are typed, without aliases."""
    return tuple(_plain(node) for node in table("nodes")["node"])


@cache
def _keys() -> dict[str, str]:
    """Every name as it is typed -> the name in nodes.toml."""
    keys: dict[str, str] = {}
    # A demo's values are invented, but not the equipment of its kind of node.
    for demo in shape.names():
        keys[demo] = shape.load(demo).like
    for node, facts in table("nodes")["node"].items():
        for alias in facts.get("aliases", ()):
            keys.setdefault(_plain(alias), node)
            keys.setdefault(_plain(alias.split(" (")[0]), node)
        keys[_plain(node)] = node
    return keys


def _plain(name: str) -> str:
    return re.sub(r"\s+", "-", name.strip()).lower()


def model_text(models: tuple[str, ...]) -> str:
    """Models in one phrase: "H100-SXM or H200-SXM"."""
    return " or ".join(model for model in models if model in skus()) or "another model"

"""A report's topology as text for people and files for other programs. Pure."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..model.machine import Machine
from ..model.units import printable
from ..report import Report
from ..wiring.graph import wires_of
from ..wiring.wires import Wire
from .tree import as_tree

if TYPE_CHECKING:
    import networkx as nx

__all__ = ["as_dot", "as_graphml", "as_json", "as_tree"]

SCHEMA = "gputop.topo/1"


def as_json(report: Report) -> dict[str, Any]:
    """Give nodes, edges and the matrix as plain data, for one JSON document."""
    snapshot = report.snapshot
    rows = report.matrix.rows
    return {
        "schema": SCHEMA,
        "gputop": snapshot.gputop,
        "source": list(snapshot.source),
        "assumptions": [*snapshot.assumptions, *_assumed(report)],
        "nodes": [
            {"id": node, "kind": attributes["kind"], "label": attributes["label"]}
            for node, attributes in report.graph.nodes(data=True)
        ],
        "edges": [{"a": a, "b": b} | _wire(wire) for a, b, wire in wires_of(report.graph)],
        "islands": [list(island) for island in report.islands],
        "matrix": {
            "alphabet": _alphabet(snapshot.machine),
            "devices": [
                {
                    "label": row.label,
                    "address": row.address,
                    "kind": row.kind,
                    "cpu_affinity": row.cpu_affinity,
                    "numa_affinity": row.numa_affinity,
                    "gpu_numa_id": row.gpu_numa_id,
                }
                for row in rows
            ],
            "nics": dict(report.matrix.nics),
            "cells": [[cell.letters for cell in row.cells] for row in rows],
        },
    }


def _alphabet(machine: Machine) -> str:
    """Whose letters the cells are: nvidia-smi has none for xGMI, and no part in AMD's machines."""
    vendors = {gpu.vendor for gpu in machine.gpus}
    if vendors == {"amd"}:
        return "PCIe distance, XGMI of rocm-smi"
    return "nvidia-smi topo -m" + (", XGMI of rocm-smi" if "amd" in vendors else "")


def _wire(wire: Wire) -> dict[str, Any]:
    return {
        "kind": wire.kind,
        "raw_gbs": wire.raw_gbs,
        "payload_gbs": wire.payload_gbs,
        "count": wire.count,
        "count_max": wire.count_max,
        "generation": wire.generation,
        "gts": wire.gts,
        "inside": wire.inside,
        "assumed": wire.assumed,
        "source": wire.source,
    }


def _assumed(report: Report) -> Iterator[str]:
    """List each assumption behind an edge once."""
    seen: set[str] = set()
    for _, _, wire in wires_of(report.graph):
        if wire.assumed and wire.source not in seen:
            seen.add(wire.source)
            yield f"{wire.name()}: {wire.source}"


def as_graphml(report: Report) -> str:
    """Write the graph as GraphML; every attribute is a plain value, unknown ones are left out."""
    import networkx as nx

    written = io.BytesIO()
    nx.write_graphml_xml(_plain(report), written, encoding="utf-8", prettyprint=True)
    return written.getvalue().decode("utf-8")


def _plain(report: Report) -> nx.Graph[str]:
    """Copy the graph with attributes that any format can hold."""
    import networkx as nx

    graph: nx.Graph[str] = nx.Graph()
    for node, attributes in report.graph.nodes(data=True):
        label = printable(str(attributes["label"]))
        graph.add_node(printable(node), kind=attributes["kind"], label=label)
    for a, b, wire in wires_of(report.graph):
        facts = {name: value for name, value in _wire(wire).items() if value is not None}
        graph.add_edge(printable(a), printable(b), **facts)
    return graph


SHAPES = {"gpu": "box3d", "nic": "component", "nvswitch": "hexagon", "numa": "folder"}
STYLES = {"nvlink": "bold", "xgmi": "bold", "c2c": "bold", "socket": "dashed", "net": "dotted"}


def as_dot(report: Report) -> str:
    """Write the graph in the language of Graphviz."""
    lines = ["graph node {", "  node [shape=box];"]
    for node, attributes in report.graph.nodes(data=True):
        shape = SHAPES.get(attributes["kind"], "box")
        lines.append(f"  {_quoted(node)} [label={_quoted(attributes['label'])}, shape={shape}];")
    for a, b, wire in wires_of(report.graph):
        label = "" if wire.inside else wire.words()
        style = STYLES.get(wire.kind, "solid")
        lines.append(f"  {_quoted(a)} -- {_quoted(b)} [label={_quoted(label)}, style={style}];")
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(text: str) -> str:
    """Quote a string for Graphviz, where a backslash begins an escape."""
    plain = printable(str(text)).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{plain}"'

"""The graph and the matrix as one JSON document, schema gputop.topo/1."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from ..hardware.vendors import AMD, vendors_of
from ..model.characters import json_text
from ..model.machine import Machine
from ..node import Node
from ..wiring.drives import DriveTable, drive_table
from ..wiring.graph import wires_of
from ..wiring.wires import Wire
from .written import Written

SCHEMA = "gputop.topo/1"


def write(node: Node) -> Written:
    """Write the document, indented."""
    return Written(json_text(document(node)) + "\n", document=True)


def document(node: Node) -> dict[str, Any]:
    """Nodes, edges and the matrix as plain data."""
    snapshot = node.snapshot
    rows = node.matrix.rows
    # A matrix may name a GPU that no source describes: it has wires, and nothing to show.
    known = {vertex for vertex, attributes in node.graph.nodes(data=True) if "kind" in attributes}
    return {
        "schema": SCHEMA,
        "gputop": snapshot.gputop,
        "source": list(snapshot.source),
        "assumptions": [*snapshot.assumptions, *_assumed(node)],
        "nodes": [
            {"id": vertex, "kind": attributes["kind"], "label": attributes["label"]}
            for vertex, attributes in node.graph.nodes(data=True)
            if vertex in known
        ],
        "edges": [
            {"a": a, "b": b} | wire_fields(wire)
            for a, b, wire in wires_of(node.graph)
            if {a, b} <= known
        ],
        "drives": _drives(drive_table(snapshot.machine)),
        "islands": [list(island) for island in node.islands],
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
            "nics": dict(node.matrix.nics),
            "cells": [[cell.code for cell in row.cells] for row in rows],
        },
    }


def _drives(table: DriveTable) -> list[dict[str, Any]]:
    """Each drive with its codes of PCIe distance by the address of a GPU."""
    found = []
    for row in table.rows:
        fields = msgspec.structs.asdict(row)
        cells = fields.pop("cells")
        found.append(fields | {"cells": dict(zip(table.gpus, cells, strict=False))})
    return found


def _alphabet(machine: Machine) -> str:
    """Name the tool whose letters the cells hold: nvidia-smi has none for xGMI."""
    vendors = vendors_of(machine.gpus)
    if vendors == (AMD,):
        return "PCIe distance, XGMI of rocm-smi"
    return "nvidia-smi topo -m" + (", XGMI of rocm-smi" if AMD in vendors else "")


def wire_fields(wire: Wire) -> dict[str, Any]:
    """Return what is known about an edge, by the names of the fields in the files."""
    return {
        "kind": wire.kind.value,
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


def _assumed(node: Node) -> Iterator[str]:
    """List each assumption behind an edge once."""
    seen: set[str] = set()
    for _, _, wire in wires_of(node.graph):
        if wire.assumed and wire.source not in seen:
            seen.add(wire.source)
            yield f"{wire.name()}: {wire.source}"

"""What each version of NCCL and RCCL changed: `python -m tests.support.nccl.versions`."""

from __future__ import annotations

import sys
from typing import Any

from gputop.topology.model.versions import numbers
from gputop.topology.nccl.versions import OWN
from gputop.topology.toml import tomllib
from tests.support.places import ROOT

TABLES = {
    "graph and transports": "topology/nccl/versions.toml",
    "search": "topology/nccl/search/search.toml",
    "tuning": "topology/nccl/tuning/tuning.toml",
}


def changes() -> dict[str, dict[str, tuple[str, ...]]]:
    """Version -> table -> names of the fields that its entry holds there; oldest version first."""
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for table, path in TABLES.items():
        entries: list[dict[str, Any]] = tomllib.loads((ROOT / path).read_text())["version"]
        for entry in entries:
            version = f"{entry['library']}-{entry['number']}"
            changed = tuple(name for name in entry if name not in OWN)
            first = entry.get("after") is None
            found.setdefault(version, {})[table] = ("everything",) if first else changed
    return dict(sorted(found.items(), key=lambda item: (item[0][:4], numbers(item[0]))))


def lines() -> list[str]:
    """The table as text, one line for each version and table."""
    return [
        f"{version:<13}{table:<22}{', '.join(changed) or 'nothing'}"
        for version, tables in changes().items()
        for table, changed in tables.items()
    ]


if __name__ == "__main__":
    sys.stdout.write("\n".join((*lines(), "")))

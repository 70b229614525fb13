"""Recorded decisions of NCCL and RCCL, and predictions to hold against them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.nccl.decide.predict import predict
from gputop.topology.nccl.prediction import Prediction
from gputop.topology.nccl.settings import Settings
from gputop.topology.recorded.load import load
from tests.support.places import CAPTURES

EMULATED = CAPTURES / "nccl-2.28.9-emulated"


@cache
def snapshot_of(path: Path) -> NodeSnapshot:
    """The snapshot of one file."""
    return load([str(path)]).snapshot


def predicted(path: Path, env: dict[str, str], **rest: Any) -> Prediction:
    """A prediction for a topology file under an environment."""
    return predict(snapshot_of(path), Settings(env), **rest)


def names(folder: str) -> list[str]:
    """Topologies of a folder of recorded decisions; [] where the recordings are not there."""
    return sorted(path.stem for path in (CAPTURES / folder / "expected").glob("*.json"))


def expected(folder: str, name: str) -> list[dict[str, Any]]:
    """What was recorded for one topology, one entry for each environment."""
    found: list[dict[str, Any]] = json.loads(
        (CAPTURES / folder / "expected" / f"{name}.json").read_text()
    )
    return found


def emulated() -> list[dict[str, Any]]:
    """The cases of real runs on emulated topologies; [] where they are not there."""
    path = EMULATED / "cases.json"
    cases: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
    return cases


def topology_of(case: dict[str, Any]) -> Path:
    """The topology file of an emulated case."""
    if case["topology"] is None:
        return CAPTURES / "hgx-h200-4gpu-vm" / "nccl-topo.xml"
    return EMULATED / str(case["topology"])

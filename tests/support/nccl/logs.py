"""Recorded debug logs for the tests."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from tests.support.places import CAPTURES, RECORDINGS

RECORDED = RECORDINGS / "nccl-logs"
EMULATED = CAPTURES / "nccl-2.28.9-emulated"


def recorded() -> list[Path]:
    """Every log in the repository."""
    return sorted(RECORDED.glob("*.log.gz"))


def lines_of(name: str) -> list[bytes]:
    """The lines of one recorded log."""
    return gzip.decompress((RECORDED / f"{name}.log.gz").read_bytes()).splitlines()


def cases() -> list[tuple[dict[str, Any], Path]]:
    """What NCCL decided in each emulated run, and its log: all where the captures are at hand."""
    if EMULATED.is_dir():
        found = json.loads((EMULATED / "cases.json").read_text())
        return [(case, EMULATED / case["log"]) for case in found]
    found = json.loads((RECORDED / "cases.json").read_text())
    return [(case, RECORDED / f"{case['case']}.log.gz") for case in found]

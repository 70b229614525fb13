"""The rules of the counts, each on a few lines that hold it and some that only look like it."""

from __future__ import annotations

from pathlib import Path

from .measure import Tree, measured

MODEL = """
\"\"\"Records.\"\"\"

from enum import Enum

import msgspec


class Finding(msgspec.Struct):
    state: str
    path: str
    \"\"\"Its file.\"\"\"
    form: str | None = None
    \"\"\"One of FORMS.\"\"\"
    kind: str = ""
    \"\"\"NCCL's word for it.\"\"\"


class Verdict(Enum):
    BROKEN = "broken", "✗"
    FINE = "fine", "✓"


class GputopError(Exception): pass


class LogError(GputopError, ValueError): pass


class LostError(ValueError): pass
"""
PRINTING = """
from .model import Finding
from ._parts import joined

MARKS = {"broken": "✗", "slow": "▼"}
CELLS = {"left": "◀", "down": "▼"}


def lines(finding):
    if finding.state == "broken" and finding.path != "" or "x" in finding.path:
        return [finding.title, finding.disproof, *finding.evidence]


def copied(finding):
    return Finding(title=finding.title, disproof=finding.disproof, fix=finding.fix)


def late(gpus):
    from . import seldom
    return {gpu.address: gpu for gpu in gpus}, {gpu.uuid: gpu for gpu in gpus}
"""


def test_each_count_finds_what_its_rule_says(tmp_path: Path) -> None:
    folder = tmp_path / "topology"
    folder.mkdir()
    files = {"__init__": "", "model": MODEL, "printing": PRINTING, "_parts": "", "seldom": ""}
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    tree = Tree([folder])
    found = {name: [place.what for place in places] for name, places in tree.places.items()}
    stems = {
        name: [Path(place.path).stem for place in found] for name, found in tree.places.items()
    }
    assert stems["home"] == ["_parts", "model", "seldom"]
    assert stems["homefree"] == ["_parts", "model"]
    assert [text.partition(":")[0] for text in found["closed"]] == ["Finding.state", "Finding.form"]
    assert found["literals"] == ["finding.state == 'broken'"]
    assert found["baseless"] == ["LostError(ValueError)"]
    assert found["printers"] == ["lines"]
    assert stems["signs"] == ["model", "printing"]
    assert len(found["byaddress"]) == 1
    assert found["cc10"] == []
    counts = measured(tree)
    assert counts["files"] == 5
    assert counts["functions"] == 3
    assert counts["code"] - counts["codeni"] == counts["imports"] == 5

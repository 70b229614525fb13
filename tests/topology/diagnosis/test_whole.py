"""What the rules say of a node of which one field after the other is not known or is another."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from gputop.topology.model.snapshot import NodeSnapshot
from tests.grid import share
from tests.support.rule_cases import base, diagnosed
from tests.support.whole import changes, whole

UNHEARD = ("*",)


def said(node: NodeSnapshot) -> str:
    found = diagnosed(node)
    lines = [
        f"{one.id} {one.severity.value}: {one.title} | {'; '.join(p.value for p in one.evidence)}"
        for one in found.findings
    ]
    lines += [f"{rule} lacks {why}" for rule, why in found.unread.items()]
    return "\n".join([*lines, whole(found.lacking)])


def others(value: Any, part: str) -> list[Any]:
    """Values in its place: none, and for a truth or a reading another one."""
    if isinstance(value, bool):
        return [None, not value]
    if part == "readings" and isinstance(value, (int, float)) and value:
        return [None, 3 * value]
    return [() if isinstance(value, tuple) else None] if value else []


@pytest.mark.parametrize("name", share(["demo sick-h100-8", "demo mi300x-8"], 2))
def test_one_field_after_the_other(name: str, snapshot: SnapshotAssertion) -> None:
    node = base(name)
    before = said(node)
    found = []
    for part in ("machine", "readings"):
        whole_part = getattr(node, part)
        gpu = whole_part.gpus[1]
        for field in gpu.__struct_fields__:
            if field in ("address", "vendor", "gaps", "index"):
                continue
            for other in others(getattr(gpu, field), part):
                made = msgspec.structs.replace(gpu, **{field: other})
                gpus = (*whole_part.gpus[:1], made, *whole_part.gpus[2:])
                changed = msgspec.structs.replace(whole_part, gpus=gpus)
                text = said(msgspec.structs.replace(node, **{part: changed}))
                found.append(f"{part} {field} = {other}\n{changes(before, text)[:1200]}")
    assert "\n".join(found) == snapshot

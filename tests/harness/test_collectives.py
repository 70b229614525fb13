"""The harness of collectives, without a GPU."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest


def test_buffers_of_every_collective_fit_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.harness.collectives import __main__ as harness  # imports torch

    seen: list[tuple[str, tuple[Any, ...]]] = []

    def noted(name: str) -> Any:
        return lambda *given, **_: seen.append((name, given))

    def batched(ops: Any) -> list[Any]:
        seen.append(("batch", tuple(ops)))
        return []

    names = (
        "all_reduce", "all_gather_into_tensor", "reduce_scatter_tensor", "broadcast", "reduce",
        "all_to_all_single", "gather", "scatter", "send", "recv", "isend", "irecv",
    )  # fmt: skip
    fake = SimpleNamespace(**{name: noted(name) for name in names})
    fake.get_rank, fake.get_world_size = (lambda: 0), (lambda: 2)
    fake.P2POp = lambda *given, **_: given
    fake.batch_isend_irecv = batched
    monkeypatch.setattr(harness, "dist", fake)
    monkeypatch.setattr(
        harness.Collectives, "buffer", lambda _, size: harness.torch.zeros(max(size, 1) // 2)
    )
    made = harness.Collectives()
    for name in harness.NAMES:
        getattr(made, name)(1 << 20)()
    told = dict(seen)
    assert len(seen) == len(harness.NAMES)
    taken, given, ours, theirs = told["all_to_all_single"]
    assert given.numel() == sum(theirs)
    assert taken.numel() == sum(ours)
    whole, part = told["all_gather_into_tensor"]
    assert whole.numel() == 2 * part.numel()

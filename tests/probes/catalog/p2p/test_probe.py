"""What is said while the walk over all pairs is under way."""

from __future__ import annotations

import pytest

from gputop.probes.catalog.p2p import probe as p2p_walk
from gputop.probes.protocol.messages import Progress
from tests.probes.catalog.p2p.test_p2p import run
from tests.probes.scripted_gpus import H200_GBS, ScriptedGpus


def test_the_first_figure_is_told_while_it_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(p2p_walk, "warm", lambda work, seconds: work())
    said = run(monkeypatch, ScriptedGpus(3))
    first = next(p for p, m in enumerate(said) if getattr(m, "name", "") == "write_bandwidth")
    early = [m.what for m in said[:first] if isinstance(m, Progress) and "so far" in m.what]
    assert early == [f"0000:00:00.0 to 0000:01:00.0: {H200_GBS:.0f} GB/s so far"] * 5, (
        "the warm-up, and four samples"
    )
    later = [m for m in said[first:] if isinstance(m, Progress) and "so far" in m.what]
    assert later == [], "what follows ends before anybody reads it"

"""One text, one answer: every door states the same faults of every text in the tests.

`log` and its JSON, the app's reading of a paste, `check --from` and its JSON, `explain --from`: the
functions behind them are called, no command is started.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from gputop.answers.check import CheckAnswer, CheckLevel
from gputop.answers.explain import faults_of
from gputop.answers.log import ReadError, answer_about, read_path
from gputop.exits import Exit
from gputop.live.log_thread import LogFailed, LogReady, LogThread
from gputop.reading import load_snapshot
from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import diagnose
from gputop.topology.diagnosis.symptoms.log import examine
from gputop.topology.node import Node
from tests.grid import share
from tests.support.places import RECORDINGS
from tests.threads.scoring import HERE

FOLDERS = ("real-faults", "pasted", "nccl-public", "rccl-logs", "nvidia-smi", "nvidia-public")
TEXTS = {
    str(path.relative_to(folder.parent)): path
    for folder in (HERE, *(RECORDINGS / name for name in FOLDERS))
    for path in sorted(folder.rglob("*"))
    if path.suffix in (".txt", ".log", ".md") and "round-3" not in path.parts
}
SHARE = 16
"""The gate takes every 16th text; the marker `grid` takes all."""
STATED = {"broken", "slow", "error", "warning"}
"""Severities of faults, as `check` and as `log` call them."""
OPEN = "failed-operation"
"""What failed for a cause that the text leaves open: a finding of all doors too."""


def _stated(found: Iterable[Any]) -> set[str]:
    told = (
        (one["id"], one["severity"]) if isinstance(one, dict) else (one.id, one.severity)
        for one in found
    )
    return {ident for ident, severity in told if severity in STATED or ident == OPEN}


def by_log(path: Path) -> dict[str, set[str]]:
    """What `log`, its JSON and the app say of a text; nothing where it is refused."""
    posted: list[object] = []
    LogThread(Path("pasted text"), None, posted.append, path.read_text(errors="replace"))._run()
    (last,) = [one for one in posted if isinstance(one, LogReady | LogFailed)]
    pasted = last.read.findings if isinstance(last, LogReady) else ()
    try:
        read = examine(read_path(path), None)
    except ReadError:
        return {"paste": _stated(pasted), "log": set(), "log --json": set()}
    document = answer_about(read).document()
    return {
        "paste": _stated(pasted),
        "log": _stated(read.findings),
        "log --json": _stated(document["findings"]),
    }


def by_files(path: Path) -> dict[str, set[str]]:
    """What `check --from`, its JSON and `explain --from` say of a text."""
    try:
        snapshot = load_snapshot((str(path),))
    except Exit:
        return {"check": set(), "check --json": set(), "explain": set()}
    diagnosis = diagnose(Case(Node(snapshot).decide()))
    document = CheckAnswer.of(diagnosis, snapshot, mode=CheckLevel.QUICK).document()
    return {
        "check": _stated(diagnosis.findings),
        "check --json": _stated(document["findings"]),
        "explain": _stated(faults_of(snapshot)),
    }


@pytest.mark.parametrize("name", share(TEXTS, SHARE))
def test_all_doors_state_the_same_faults(name: str) -> None:
    said = {**by_log(TEXTS[name]), **by_files(TEXTS[name])}
    assert len(set(map(frozenset, said.values()))) == 1, said

"""Give each thread's material to gputop and score the answer."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import msgspec

from gputop.topology.toml import tomllib
from tests.support.command import gputop
from tests.threads.stern import blocks, stern_points

HERE = Path(__file__).parent
BROKEN = {"broken", "error"}
"""The worst severity, as `check` and as `log` call it."""
UNKNOWN = "cannot-tell"
"""Severity of what could not be read: it names no cause."""


class Thread(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thread; README.md says what the fields are."""

    source: str
    title: str
    cause: str
    cure: str
    sure: Literal["confirmed", "likely"]
    command: Literal["log", "check"] = "log"
    finding: tuple[str, ...]
    words: tuple[str, ...]
    also: tuple[str, ...] = ()
    proof: tuple[int, ...] = ()
    """Numbers of the lines that prove the finding; empty where nobody counted them."""


@dataclass(frozen=True)
class Score:
    """What an answer is worth."""

    points: int
    why: str


@cache
def threads() -> dict[str, Thread]:
    """All threads by the name of their folder."""
    found = sorted(HERE.glob("*/thread.toml"))
    return {
        path.parent.name: msgspec.convert(tomllib.loads(path.read_text()), Thread) for path in found
    }


def materials(name: str) -> tuple[Path, ...]:
    """The files that the asker pasted."""
    return tuple(sorted((HERE / name).glob("material*.txt")))


@cache
def document(command: str, files: tuple[Path, ...]) -> dict[str, Any] | None:
    """The whole answer of gputop as JSON; None where it refuses the text."""
    if command == "log":
        ran = gputop("log", str(files[0]), "--json")
    else:
        sources = [part for file in files for part in ("--from", str(file))]
        ran = gputop("check", "--quick", *sources, "--json")
    if not ran.stdout.strip():
        return None
    said: dict[str, Any] = json.loads(ran.stdout)
    return said if "findings" in said else None


def answer(command: str, files: tuple[Path, ...]) -> list[dict[str, Any]] | None:
    """The findings of gputop, worst first; None where it refuses the text."""
    said = document(command, files)
    return None if said is None else said["findings"]


def score(name: str) -> Score:
    """Score the answer to one thread."""
    thread = threads()[name]
    found = answer(thread.command, materials(name))
    if found is None:
        return Score(0, "refused")
    said = [finding for finding in found if finding["severity"] != UNKNOWN]
    named = next((finding for finding in said if finding["id"] in thread.finding), None)
    first = next((finding for finding in said if finding["severity"] in BROKEN), None)
    if first is not None and first["id"] not in (*thread.finding, *thread.also):
        return Score(-1, f"misled by {first['id']}")
    if named is None:
        return Score(0, "missed")
    told = ("title", "cause", "fix", "look", "candidates")
    text = json.dumps([named.get(part) for part in told])
    cured = any(word in text for word in thread.words)
    return Score(2, "cause and cure") if cured else Score(1, "cause, no cure")


def table() -> str:
    """All scores as text, with the share of all points."""
    scores = {name: score(name) for name in threads()}
    width = max(map(len, scores), default=0)
    rows = [
        f"{name:{width}}  {result.points:2}  {result.why:24}  {threads()[name].source}"
        for name, result in scores.items()
    ]
    stern = sum(
        stern_points(
            scores[name].points,
            [rf"\[{ident}\]" for ident in thread.finding],
            [*map(re.escape, thread.words)],
            blocks("check", materials(name)),
        )
        for name, thread in threads().items()
    )
    whole = f"{100 * share(scores):.0f} % of {2 * len(scores)} points"
    return "\n".join([*rows, f"{whole}; by the first lines of check {stern}"])


def share(scores: dict[str, Score]) -> float:
    """The share of all points that could be had."""
    return sum(result.points for result in scores.values()) / (2 * len(scores))

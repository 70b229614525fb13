"""Score a round: threads whose cause and cure were written down before gputop saw the text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import msgspec

from gputop.topology.toml import tomllib
from tests.threads.scoring import HERE, UNKNOWN, document
from tests.threads.stern import blocks, stern_points

STATED = {"broken", "slow", "error", "warning"}
"""Severities that claim a fault, as `check` and as `log` call them."""
SHOWN = 3
"""Findings that a person reads, and possible causes of each."""
ALL_CLEAR = "healthy"


class Expected(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an answer has to hold; README.md says what the fields are."""

    command: Literal["log", "check"]
    sick: bool
    cause_words: tuple[str, ...]
    cure_words: tuple[str, ...]
    also_words: tuple[str, ...] = ()


class RoundThread(Expected, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thread of a round."""

    source: str
    title: str
    cause: str
    cure: str
    sure: Literal["confirmed", "likely", "unknown"]


@dataclass(frozen=True)
class Told:
    """One thing that an answer tells: what it claims, and what it says to do."""

    claim: str
    cure: str


@dataclass(frozen=True)
class RoundScore:
    """What the answer to one thread is worth, and the words that decided it."""

    points: int
    why: str
    said: str = ""
    stern: int | None = None
    """The points that a reader of the first lines of `check --from` gives."""
    stern_door: int | None = None
    """The same by the command that the thread is for."""


def round_threads(number: int) -> dict[str, RoundThread]:
    """The threads of one round by the names of their folders."""
    return {
        path.parent.name: msgspec.convert(tomllib.loads(path.read_text()), RoundThread)
        for path in sorted(_folder(number).glob("*/thread.toml"))
    }


def round_scores(number: int) -> dict[str, RoundScore]:
    """The scores of one round by the names of its threads."""
    return {
        name: scored(thread, tuple(sorted(_folder(number).glob(f"{name}/*.txt"))))
        for name, thread in round_threads(number).items()
    }


def scored(thread: Expected, files: tuple[Path, ...]) -> RoundScore:
    """The score of one text, by the whole answer and by its first lines."""
    result = round_score(thread, document(thread.command, files))
    check, door = (
        stern_points(result.points, thread.cause_words, thread.cure_words, blocks(command, files))
        if thread.sick
        else result.points
        for command in ("check", thread.command)
    )
    return replace(result, stern=check, stern_door=door)


def round_score(thread: Expected, said: dict[str, Any] | None) -> RoundScore:
    """Score one answer; `said` is its JSON document, None where the text is refused."""
    if said is None:
        return RoundScore(0, "refused")
    stated = next((finding for finding in said["findings"] if _states(finding)), None)
    if not thread.sick:
        return RoundScore(2, "no claim") if stated is None else _misled("accuses", stated)
    if stated is not None and not _any((*thread.cause_words, *thread.also_words), _claim(stated)):
        return _misled("misleads", stated)
    if _clears(said):
        return RoundScore(-1, "all-clear", ALL_CLEAR)
    return _named(thread, list(_told(said["findings"])), said.get("next") or "")


def round_table(number: int) -> str:
    """The scores of a round as text, with their share and what counts against them."""
    return score_table(round_scores(number))


def score_table(scores: dict[str, RoundScore]) -> str:
    """Scores by name as text, with their share and what counts against them."""
    width = max(map(len, scores), default=0)
    rows = [
        f"{name:{width}}  {_points(result)}  {result.why:14}  {result.said}".rstrip()
        for name, result in scores.items()
    ]
    points = sum(result.points for result in scores.values())
    misleading = sum(result.points < 0 for result in scores.values())
    refused = sum(result.why == "refused" for result in scores.values())
    whole = 2 * len(scores)
    share = f"{points} of {whole} points ({100 * points / whole:.0f} %)"
    stern = [result.stern for result in scores.values() if result.stern is not None]
    door = [result.stern_door for result in scores.values() if result.stern_door is not None]
    lines = f"{len(stern)} texts, of {2 * len(stern)}"
    read = f"by the first lines: check {sum(stern)}, the thread's command {sum(door)} ({lines})"
    return "\n".join([*rows, f"{share}, {misleading} misleading, {refused} refused", read])


def _points(result: RoundScore) -> str:
    """The points, and beside them those of the first lines."""
    stern = "" if result.stern is None else f" {result.stern:2} {result.stern_door:2}"
    return f"{result.points:2}{stern}"


def _folder(number: int) -> Path:
    return HERE / f"round-{number}"


def _states(finding: dict[str, Any]) -> bool:
    return finding["severity"] in STATED and finding.get("sureness") != "possible"


def _misled(why: str, finding: dict[str, Any]) -> RoundScore:
    return RoundScore(-1, why, finding["title"])


def _clears(said: dict[str, Any]) -> bool:
    sentences = (str(said.get(name) or "") for name in ("verdict", "sentence"))
    return any(sentence.lower().startswith(ALL_CLEAR) for sentence in sentences)


def _told(findings: Iterable[dict[str, Any]]) -> Iterator[Told]:
    """What is shown first: findings, each followed by its possible causes."""
    # What could not be read names no cause, unless possible ones stand with it.
    shown = [one for one in findings if one["severity"] != UNKNOWN or one.get("candidates")][:SHOWN]
    for finding in shown:
        helps = _text(finding, "cause", "fix", "look")
        yield Told(_claim(finding), helps)
        for one in (finding.get("candidates") or ())[:SHOWN]:
            yield Told(_text(one, "cause"), f"{helps} {_text(one, 'cause', 'needs', 'fix')}")


def _named(thread: Expected, told: list[Told], after: str) -> RoundScore:
    """Points for the cause, and for the cure beside it."""
    caused = [one for one in told if _any(thread.cause_words, one.claim)]
    for one in caused:
        if _any(thread.cure_words, one.cure, after):
            return RoundScore(2, "cause and cure", one.claim)
    if caused:
        return RoundScore(1, "cause", caused[0].claim)
    if _any(thread.cure_words, after, *(one.cure for one in told)):
        return RoundScore(1, "cure")
    return RoundScore(0, "missed", told[0].claim if told else "")


def _claim(finding: dict[str, Any]) -> str:
    """A finding's title and cause; a rule of `check` says in the consequence what follows."""
    return _text(finding, "title", "cause", "consequence")


def _text(found: dict[str, Any], *parts: str) -> str:
    return " ".join(" ".join(_strings(found.get(part))) for part in parts).strip()


def _strings(value: Any) -> Iterator[str]:
    """Every text in a piece of JSON."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)


def _any(patterns: Iterable[str], *texts: str) -> bool:
    return any(re.search(pattern, text) for pattern in patterns for text in texts)

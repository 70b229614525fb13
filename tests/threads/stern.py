"""What a reader of the first lines gets: a sterner score than that of the whole answer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.command import gputop

LINES = 25
"""What a person reads before looking elsewhere; 80 columns wide."""
QUOTED = 4
"""So many words in a row that the material has too are a quotation, and no answer."""
_TITLE = re.compile(r"^ {0,3}(?:✗|▼|•|\?|○|✓) +\S")
_LABEL = re.compile(
    r"^ +(Fix|Cause|Impact|Possibly|Decides|Then|Look|Source|line \d+|for|against|decides|then"
    r"|Possible causes)\b[^:]{0,40}:|^ +(\d)\. "
)
_CAUSES = {"", "Cause", "Impact", "Possibly"}
_CURES = {"Fix", "Then", "then"}


@dataclass
class Block:
    """One finding as it is shown: what it claims, and what it says to do."""

    causes: list[str] = field(default_factory=list)
    cures: list[str] = field(default_factory=list)


def blocks(command: str, files: Sequence[Path]) -> list[Block]:
    """The findings in the first lines of an answer, without what they quote.

    `command` is "log", or "check" for `check --quick --from`. Empty where the text is refused.
    """
    if command == "log":
        ran = gputop("log", str(files[0]), COLUMNS="80")
    else:
        sources = [part for file in files for part in ("--from", str(file))]
        ran = gputop("check", "--quick", *sources, COLUMNS="80")
    material = " ".join(file.read_text(errors="replace") for file in files)
    return list(_blocks(ran.stdout.splitlines()[:LINES], _runs(material.split())))


def _blocks(lines: Iterable[str], known: set[tuple[str, ...]]) -> Iterator[Block]:
    block: Block | None = None
    label = ""
    said: dict[str, list[str]] = {}
    for line in [*lines, "✗ end"]:
        if _TITLE.match(line):
            if block is not None:
                for name, words in said.items():
                    text = _own(words, known)
                    block.causes += [text] if name in _CAUSES or name.isdigit() else []
                    block.cures += [text] if name in _CURES else []
                yield block
            block, label, said = Block(), "", {}
        elif (found := _LABEL.match(line)) is not None:
            label = found[1] or found[2]
        said.setdefault(label, []).extend(line.split())


def _runs(words: Sequence[str]) -> set[tuple[str, ...]]:
    return {tuple(words[at : at + QUOTED]) for at in range(len(words) - QUOTED + 1)}


def _own(words: Sequence[str], known: set[tuple[str, ...]]) -> str:
    """The words that are no quotation of the material."""
    quoted = {
        place
        for at in range(len(words) - QUOTED + 1)
        if tuple(words[at : at + QUOTED]) in known
        for place in range(at, at + QUOTED)
    }
    return " ".join(word for at, word in enumerate(words) if at not in quoted)


def stern_points(
    points: int, causes: Sequence[str], cures: Sequence[str], shown: Iterable[Block]
) -> int:
    """Points of an answer by its first lines; `points` are those of the whole answer.

    What misleads misleads here too. The cure counts beside its cause, in a step to take: what
    would decide between causes is none.
    """
    if points < 0:
        return points
    best = 0
    for block in shown:
        caused, cured = _any(causes, block.causes), _any(cures, block.cures)
        best = max(best, int(caused) + int(cured))
    return best


def _any(patterns: Iterable[str], texts: Iterable[str]) -> bool:
    said = list(texts)
    return any(re.search(pattern, text) for pattern in patterns for text in said)

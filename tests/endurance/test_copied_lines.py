"""Lines for copying, wherever a command prints one: no name from a file is obeyed in it.

Nothing here lists the places. Each sound input is read once, and what was printed as a command is
compared with the input: the words that travelled from one to the other get a hostile name.
"""

from __future__ import annotations

import itertools
import json
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import pytest

from gputop.printing import render
from gputop.topology.model.page import Role
from tests.harness.endurance.inputs import PLACE, MutatedInput
from tests.harness.endurance.originals import Original, originals
from tests.harness.outputs.running import printed
from tests.support.fleet_made import node, slower
from tests.support.hostile_names import HOSTILE, obeyed
from tests.support.places import ROOT

TURNS = 1
"""Hostile names that each input gets besides ALL; the next input gets the next ones."""
_KEYS = ("command", "commands", "steps")
"""Of a JSON document: what is said to be a line for copying."""
_SCRIPTS = ("sbatch", "hostfile")
_CHECK = ("check", "--quick", "-v", "--from", PLACE)
_LOG = (("log", PLACE), ("log", PLACE, "--json"))
_JOBS = (("jobs", "--from", PLACE), ("jobs", "--json", "--from", PLACE))
READERS: dict[str, tuple[tuple[str, ...], ...]] = {
    "snapshot": (
        *(_CHECK, ("check", "--quick", "--json", "--from", PLACE)),
        *(("explain", "--from", PLACE), ("flags", "--from", PLACE), ("topo", "--from", PLACE)),
        ("explain", "0", "1", "--set", "NCCL_P2P_DISABLE=1", "--from", PLACE),
    ),
    "check-file": (_CHECK,),
    "nvml-json": (_CHECK,),
    "amd-smi-json": (_CHECK,),
    "pasted": (_CHECK, *_LOG),
    "log": _LOG,
    "ras-text": (*_LOG, *_JOBS),
    "ras-json": _JOBS,
    "watchdog": (*_LOG, *_JOBS),
    "torchfrtrace": _LOG,
    "dumps": (*_LOG, *_JOBS),
    "fleet": (("fleet", PLACE, "-v"), ("fleet", PLACE, "--json")),
    "pairs": (
        *(("fleet", "plan", PLACE), ("fleet", "plan", PLACE, "--json"), ("fleet", PLACE)),
        *(("fleet", "plan", PLACE, "--format", form) for form in _SCRIPTS),
    ),
    "since": (("check", "--quick", "-v", "--demo", "sick-h100-8", "--since", PLACE),),
    "compared": (
        *(
            ("diff", f"{PLACE}/a.json", f"{PLACE}/b.json"),
            ("diff", "hgx-h100-8", f"{PLACE}/b.json"),
        ),
        ("diff", f"{PLACE}/a.json", f"{PLACE}/b.json", "--json"),
    ),
    "node": (
        *(("watch", "--once", *more, "--from", PLACE) for more in ((), ("--json",))),
        *(("which", "2", "--busy", *more, "--from", PLACE) for more in ((), ("--json",))),
        *(("cost", "Llama 3 8B", *more, "--from", PLACE) for more in ((), ("--json",))),
        ("metrics", "--from", PLACE),
    ),
    "model": tuple(("cost", PLACE, "--demo", "hgx-h100-8", *more) for more in ((), ("--json",))),
}
"""Formats whose content may travel, and what prints lines of them."""
_WORD = re.compile(r"[\w.:@+-]{2,}")
_EXAMPLE = re.compile(r"^ *>>> (?:.*\S.*\n)+", re.MULTILINE)
MOST_TRAVELLING = 3


@pytest.fixture(name="said")
def record(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """All that is drawn as a command, from here on."""
    found: list[str] = []
    command, runs = render._command, render._runs

    def commands(line: str, *more: Any) -> Any:
        found.append(line)
        return command(line, *more)

    def spans(text: Any, role: Role) -> Iterator[tuple[str, str]]:
        for part, ink in runs(text, role):
            if ink == render.INKS[Role.COMMAND] and part.startswith("`"):
                found.append(part.strip("`"))
            yield part, ink

    monkeypatch.setattr(render, "_command", commands)
    monkeypatch.setattr(render, "_runs", spans)
    return found


def in_document(value: Any) -> Iterator[str]:
    """What a JSON document says is a command."""
    if isinstance(value, list):
        for item in value:
            yield from in_document(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key in _KEYS:
                yield from [item] if isinstance(item, str) else map(str, item or ())
            yield from in_document(item)


def lines(form: str, files: dict[str, bytes], folder: Path, said: list[str]) -> list[str]:
    """All lines for copying that the readers of a format print of these files."""
    found: list[str] = []
    for number, command in enumerate(READERS[form]):
        made = MutatedInput(0, form, "", "", command, files)
        said.clear()
        text = printed(made.arguments(made.write(folder / str(number))))
        found += said
        answer = text.partition("\n")[2].partition("--- stderr\n")[0]
        if "--json" in command and answer.startswith("{"):
            found += in_document(json.loads(answer))
        if command[-1] in _SCRIPTS:
            found += answer.splitlines()
    return [line for line in found if line]


def renamed(name: str, data: bytes, word: str, other: str) -> bytes:
    """The file with another name in place of this word, as its format writes it."""
    if name.endswith(".json"):
        other = json.dumps(other)[1:-1]
    elif name.endswith(".xml"):
        other = quoteattr(other)[1:-1]
    made = other.encode("utf-8", "surrogatepass")
    return re.sub(rb"(?<![\w.-])%b(?![\w.-])" % re.escape(word.encode()), lambda _: made, data)


def travelling(files: dict[str, bytes], sound: list[str]) -> list[str]:
    """The words of these lines that come from the files; the longest first."""
    words = {word.strip(".:-+") for line in sound for word in _WORD.findall(line)}
    there = set(_WORD.findall(b"\n".join(files.values()).decode("utf-8", "replace")))
    there |= {word.strip(".:-+") for word in there}
    found = sorted((words & there) - our_words(), key=lambda word: (-len(word), word))
    return [word for word in found if len(word) > 1][:MOST_TRAVELLING]


@cache
def our_words() -> frozenset[str]:
    """Words of our own sources, which no file brought; examples show what a file does bring."""
    paths = [path for top in ("gputop", "topology") for path in (ROOT / top).rglob("*.py")]
    texts = (_EXAMPLE.sub("", path.read_text("utf-8")) for path in paths)
    return frozenset(word for text in texts for word in _WORD.findall(text))


def hostile_lines(
    form: str, original: Original, names: tuple[str, ...], folder: Path, said: list[str]
) -> tuple[int, list[str]]:
    """How many words travelled, and the lines that obey a name in their place."""
    sound = lines(form, original.files, folder / "sound", said)
    words = travelling(original.files, sound)
    found = []
    for place, (word, name) in enumerate(itertools.product(words, names)):
        files = {path: renamed(path, data, word, name) for path, data in original.files.items()}
        found += obeyed(name, lines(form, files, folder / str(place), said), sound)
    return len(words), found


TRAVELLING = {
    "snapshot": ("sick-h100-8 snapshot.json",),
    "pasted": ("pasted/gb10-rdma-link.txt",),
    "ras-text": ("ras/killed.txt", "ras/public/missing-2.24.txt", "ras/public/exited-2.30.7.txt"),
    "ras-json": ("ras/left.json.txt", "ras/stopped.json.txt"),
    "fleet": ("racks",),
    "pairs": ("pairs",),
    "since": ("sick-h100-8 snapshot.json",),
}
"""Originals of which a name stands in a line."""


def inputs(form: str) -> list[Original]:
    """Originals of a format: those of which names travel, and two more, of which one may."""
    every = originals(form)
    if form == "fleet":
        made = [node(f"rack-a{number}") for number in range(1, 7)]
        made[2] = slower(made[2], "gemm gemm bf16", 0.2)
        files = {f"{number}.json": json.dumps(one).encode() for number, one in enumerate(made)}
        every = (Original("racks", files), *every)
    more = every[:: max(1, len(every) // 2)][:2]
    return [one for one in every if one.name in TRAVELLING.get(form, ()) or one in more]


@pytest.mark.parametrize("form", READERS)
def test_no_command_prints_a_hostile_name(form: str, said: list[str], tmp_path: Path) -> None:
    for place, original in enumerate(inputs(form)):
        start = (list(READERS).index(form) * 5 + place) * TURNS % len(HOSTILE)
        names = ("ALL", *(HOSTILE * 2)[start : start + TURNS])
        words, found = hostile_lines(form, original, names, tmp_path / str(place), said)
        assert found == [], original.name
        assert words or original.name not in TRAVELLING.get(form, ())


@pytest.mark.parametrize("form", ["fleet", "pairs", "ras-text", "ras-json"])
def test_a_place_that_asks_nothing_is_found(
    form: str, said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, module in list(sys.modules.items()):
        if name.startswith("gputop.") and hasattr(module, "may_stand"):
            monkeypatch.setattr(module, "may_stand", lambda *_: True)
    asked = [one for one in inputs(form) if one.name in TRAVELLING[form]]
    assert any(
        hostile_lines(form, original, ("ALL",), tmp_path / str(place), said)[1]
        for place, original in enumerate(asked)
    )

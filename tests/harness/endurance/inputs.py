"""One mutated input of each number: its files, and the command line that reads it."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.harness.outputs import commands

from .json_mutations import of_json
from .originals import Original, formats, originals
from .repetition import repeated
from .tar_mutations import of_tar
from .text_mutations import MOST_BYTES, of_bytes, of_text
from .xml_mutations import of_xml

_NAMES = (b"\xff", b"\xc3", b"\x1b[31m", b"\n", b"\xe2\x80\xae", b"-", b" ", b"[red]")
"""Put before a file's own name."""
PLACE = "{}"
"""Stands in a command line for the path of the input."""

_FLAGS = [name for name in commands.FLAGS if "NO_SUCH" not in name]
_READERS: tuple[tuple[str, ...], ...] = (
    *(("topo", "--format", form) for form in ("matrix", "tree", "dot", "graphml", "svg")),
    *(("topo", "--format", form) for form in ("nccl-xml", "json")),
    ("explain",),
    ("explain", "--json"),
    ("explain", "0", "1"),
    ("explain", "0", "1", "--json"),
    ("check", "--quick"),
    ("check", "--quick", "-v"),
    ("check", "--quick", "--json"),
    ("check", "--quick", "--json"),
    ("flags",),
    ("flags", "--json"),
    ("flags", "NAME"),
    ("flags", "NAME", "--json"),
    ("snapshot",),
    ("snapshot", "--redact"),
)
_LOG_READERS = (("log",), ("log", "--json"))
_RANK_READERS = (*_LOG_READERS, ("jobs", "--from"), ("jobs", "--json", "--from"))
NO_FILES = ("setting", "option")
"""Formats whose input stands in the command line."""
_FIXED_NAMES = (*NO_FILES, "theme", "network", "history", "compared")
_FOLDERS = (
    *("folder", "dumps", "job-folder", "fleet", "pairs", "theme", "network", "option"),
    "compared",
)
"""Formats whose input is the folder itself."""
_FLEET_READERS = (
    *(("fleet", PLACE, *more) for more in ((), ("-v",), ("--json",), ("--nodes", "g[1-9]"))),
    ("fleet", PLACE, "--since", PLACE),
)
_PLAN_READERS = tuple(
    ("fleet", "plan", PLACE, *more)
    for more in ((), ("--json",), ("--format", "sbatch"), ("--pairs", "random"), ("--scale",))
)
_DOORS = {
    "theme": "(theme)",
    "preferences": "(preferences)",
    "history": "(history)",
    "nccl-conf": "(nccl.conf)",
    "ras-tcp": "(ras)",
    "agent": "(agent)",
}
_NODE_READERS = (
    *(("metrics", *more) for more in ((), ("--json",))),
    *(("watch", "--once", *more) for more in (("--no-jobs",), ("--json", "--no-jobs"))),
    *(("which", *more) for more in (("2",), ("1", "--json"), ("8", "--busy"))),
    *(("cost", "Llama 3 8B", *more) for more in ((), ("--json",), ("--nodes", "2"))),
    ("cost", "Mixtral 8x7B", "--serve"),
    *(("diff", "hgx-h100-8"), ("diff", "mi300x-8", "--json")),
)
_MODEL_READERS = (
    *((), ("--json",), ("--nodes", "4"), ("--serve",), ("--layout", "tp=8", "--json")),
    *(("--dtype", "fp8", "--zero", "3"), ("--seq", "131072", "--recompute", "full")),
    ("--layout", "tp=2,pp=2,dp=2", "--observed-step", "1.9s"),
)
_OPTIONS: dict[str, tuple[tuple[str, ...], ...]] = {
    "--nodes": (("fleet", "plan", PLACE, "--nodes"), ("fleet", "plan", PLACE, "--json", "--nodes")),
    "--gpus": (("explain", "--gpus"), ("check", "--quick", "--gpus"), ("flags", "--gpus")),
    "--missing": (("explain", "--nodes", "4", "--missing"),),
    "--ignore": (("check", "--quick", "--ignore"), ("check", "--quick", "--json", "--ignore")),
    "--expect": (("check", "--quick", "--expect"),),
    "--nccl": (("explain", "--nccl"), ("flags", "--nccl")),
    "--against": (("explain", "--against"),),
    "--topology": (("fleet", "plan", PLACE, "--nodes", "g[1-16]", "--topology"),),
}
"""Option -> commands that end with it."""
_JUDGED = ("hgx-h100-8", "sick-h100-8", "mi300x-8", "pcie-l40s-8")


@dataclass(frozen=True)
class MutatedInput:
    """One command line and the file or folder that it reads."""

    number: int
    form: str
    original: str
    mutated: str
    """The kinds of mutation, for the reader of a failure."""
    command: tuple[str, ...]
    """Without the program's name; PLACE where the path goes."""
    files: dict[str, bytes]

    def write(self, folder: Path) -> Path:
        """Write the files into a folder of their own; gives what the command line names."""
        folder.mkdir(parents=True)
        for name, content in self.files.items():
            (folder / name).write_bytes(content)
        return folder if self.form in _FOLDERS else folder / next(iter(self.files))

    def arguments(self, place: Path) -> list[str]:
        """The command line with the path in its place."""
        return [word.replace(PLACE, str(place)) for word in self.command]


def mutated_input(seed: int, number: int, only: str = "", without: str = "") -> MutatedInput:
    """The same for the same numbers, on every machine."""
    forms = [form for form in formats() if only in form and form != without]
    form = forms[number % len(forms)]
    rolls = Random(f"{seed}:{number}:{form}")
    original = rolls.choice(originals(form))
    mutated, files = _mutated(form, original, rolls)
    command = _command(form, original, files, rolls)
    return MutatedInput(number, form, original.name, mutated, command, files)


def _mutated(form: str, original: Original, rolls: Random) -> tuple[str, dict[str, bytes]]:
    """Change one file, of a folder sometimes several, once or a few times."""
    files = dict(original.files)
    kinds: list[str] = []
    for name in rolls.sample(list(files), min(len(files), rolls.choice((1, 1, 2)))):
        for _ in range(rolls.choice((1, 1, 1, 1, 2, 4))):
            if len(files[name]) > 2 * MOST_BYTES:
                break
            sound = files[name] is original.files[name]
            kind, change = rolls.choice(_changes(name, sound=sound))
            with suppress(RecursionError):  # one change nested it deeper than the next can follow
                files[name] = change(files[name], rolls)
            kinds.append(kind)
        if form not in _FIXED_NAMES and rolls.random() < 0.04:
            files[os.fsdecode(rolls.choice(_NAMES)) + name] = files.pop(name)
            kinds.append("name")
    return ", ".join(kinds), files


def _repeating(name: str) -> Callable[[bytes, Random], bytes]:
    """Say one thing of the file many times, as often as fits below MOST_BYTES."""

    def change(data: bytes, rolls: Random) -> bytes:
        place, times = rolls.random(), rolls.choice(_TIMES)
        # Written anew it may be shorter: once and a few times more tell how long one is.
        once, few = (repeated(name, data, Random(place), often) for often in (1, _FEW + 1))
        one = max(1, (len(few) - len(once)) // _FEW)
        fits = max(1, min(times, (MOST_BYTES - len(data)) // one))
        return repeated(name, data, Random(place), fits)

    return change


_Change = tuple[str, Callable[[bytes, Random], bytes]]
_ANY: tuple[_Change, ...] = (("bytes", of_bytes), ("text", of_text))
_TIMES = (3, 100, 1_000, 10_000, 100_000)
_FEW = 16
"""Repetitions that show how large one is."""


def _changes(name: str, *, sound: bool) -> tuple[_Change, ...]:
    """What may be done to a file; what has a grammar is mostly changed within it.

    `sound`: it was not changed yet, so that a pickle in it may be loaded to repeat a part of it.
    """
    if name.endswith(".tar.gz"):
        again = ("repetition", _repeating(name))
        return (("tar", of_tar),) * 8 + (again, ("bytes", of_bytes))
    if name.endswith(".gz"):
        return (("packed text", _repacked),) * 4 + (("bytes", of_bytes),)
    again = ("repetition", _repeating(name))
    if name.endswith(".json"):
        return (*_ANY, *(("json", of_json),) * 6, again, again)
    if name.endswith(".xml"):
        return (*_ANY, *(("xml", of_xml),) * 6, again, again)
    return (*_ANY, ("text", of_text), *((again,) if sound else ()))


def _repacked(data: bytes, rolls: Random) -> bytes:
    """Change the text within; what is no gzip any more is changed as it is."""
    try:
        inner = gzip.decompress(data)
    except (OSError, EOFError, zlib.error):
        return of_bytes(data, rolls)
    change = rolls.choice((of_bytes, of_text, of_text, _repeating("")))
    return gzip.compress(change(inner, rolls), 1, mtime=0)


def _command(
    form: str, original: Original, files: dict[str, bytes], rolls: Random
) -> tuple[str, ...]:
    judged = ("--demo", rolls.choice(_JUDGED))
    check = ("check", "--quick", *rolls.choice(((), ("-v",), ("--json",))))
    match form:
        case "log" | "log-gz":
            node = rolls.choice((("--demo", "hgx-h100-8"), ("--demo", "mi250x-8"), (), ()))
            return (*rolls.choice(_LOG_READERS), PLACE, *node)
        case "ras-text" | "ras-json" | "torchfrtrace" | "watchdog" if rolls.random() < 0.9:
            return (*rolls.choice(_RANK_READERS), PLACE)
        case "job-folder" if rolls.random() < 0.6:
            return (*rolls.choice(_RANK_READERS), PLACE)
        case "dumps":
            return rolls.choice(
                (*((*words, PLACE) for words in _LOG_READERS), ("jobs", "--from", PLACE))
            )
        case "fleet":
            return rolls.choice(_FLEET_READERS)
        case "pairs":
            return rolls.choice((*_PLAN_READERS, *_FLEET_READERS[:3]))
        case "pasted" | "threads" if rolls.random() < 0.5:
            return (*rolls.choice(_LOG_READERS), PLACE)
        case "policy":
            return (*check, *judged, "--config", PLACE)
        case "expect" | "since":
            # Mostly the node that the reference was: another is refused early.
            same = original.demo and rolls.random() < 0.8
            node = ("--demo", original.demo) if same else judged
            return (*check, *node, f"--{form}", PLACE)
        case "setting":
            ((name, value),) = files.items()
            command = rolls.choice((("explain",), ("flags", name), ("explain", "--json")))
            return (*command, *judged, "--set", f"{name}={_argument(value)}")
        case "option":
            ((name, value),) = files.items()
            words = rolls.choice(_OPTIONS[name])[:-1]
            node = () if words[0] == "fleet" else judged
            return (*words, *node, f"{name}={_argument(value)}")
        case "network":
            rest = rolls.choice(((), ("--json",), ("--pairs", "random"), ("--scale",)))
            (name,) = files
            plan = ("fleet", "plan", PLACE, "--nodes", "g[1-16]", *rest)
            return (*plan, "--topology", f"{PLACE}/{name}")
        case "compared":
            ends = (f"{PLACE}/a.json", f"{PLACE}/b.json")
            pair = rolls.choice((ends, ends, ends[::-1], (original.demo, ends[1])))
            return ("diff", *pair, *rolls.choice(((), ("--json",))))
        case "model":
            return ("cost", PLACE, *judged, *rolls.choice(_MODEL_READERS))
        case "node":
            words = rolls.choice(_NODE_READERS)
            return (*words, *((PLACE,) if words[0] == "diff" else ("--from", PLACE)))
        case "theme" | "preferences" | "history" | "nccl-conf" | "ras-tcp" | "agent":
            return (_DOORS[form], PLACE)
    words = tuple(
        rolls.choice(_FLAGS) if word == "NAME" else word for word in rolls.choice(_READERS)
    )
    return (*words, "--from", PLACE)


def _argument(value: bytes) -> str:
    """As a command line may hold it."""
    text = value.replace(b"\x00", b"")[:100_000].decode("utf-8", "surrogateescape")
    return text.replace(PLACE, "()")

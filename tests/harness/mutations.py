"""Changes one operator or constant at a time, and counts which changes the mirrored tests notice.

    python -m tests.harness.mutations --count 300 --seed 1 --processes 16 --out FILE.jsonl
    python -m tests.harness.mutations --only topology/fleet/outliers.py

A change is noticed where a test of the mirrored folder fails, cannot even be collected, takes far
too long, or takes its whole process along. Changes after which the program does the same are listed
with the reason in equivalents.toml and not made.

The tools of the package index do not serve here. mutmut tries every function with the tests that
cover it, wherever those lie; cosmic-ray needs fourteen packages and a database, and takes no random
share; mutatest takes one, but its last release pins a coverage of 2021. None of them asks whether
the tests of the *same folder* notice a change, and none runs with nothing installed but what the
tests need anyway. What follows takes Python, pytest and the checkout.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from typing import TypeVar

from gputop.topology.toml import tomllib
from tests.support.places import CAPTURES, ROOT

T = TypeVar("T")
AREAS = (
    "topology/diagnosis",
    "topology/expectation",
    "topology/jobs",
    "topology/fleet",
    "topology/logs",
    "gputop/measuring",
    "gputop/checking",
)
LEFT_BEHIND = shutil.ignore_patterns(".*", "build", "*.egg-info", "node_modules")
ALSO = (
    ("topology/diagnosis/", "tests/topology/diagnosis/test_rules.py"),
    ("topology/expectation/domains.py", "tests/topology/explain/test_domains.py"),
    *((f"{area}/", f"tests/{area}/test_constants.py") for area in AREAS),
)
"""Tests of a folder that stand for what lies below it: limits and words, and cases of the rules."""
EQUIVALENTS = Path(__file__).with_name("equivalents.toml")
FOR_PEOPLE = ("clean", "plural", "listing", "shorten")
"""Calls that make texts."""
SECONDS = 120
TIMES_AS_LONG = 4
"""A change that makes the tests take so many times as long as without it is noticed."""
COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Eq: (r"==", "!="),
    ast.NotEq: (r"!=", "=="),
    ast.Lt: (r"<", "<="),
    ast.LtE: (r"<=", "<"),
    ast.Gt: (r">", ">="),
    ast.GtE: (r">=", ">"),
    ast.Is: (r"\bis\b", "is not"),
    ast.IsNot: (r"\bis\s+not\b", "is"),
    ast.In: (r"\bin\b", "not in"),
    ast.NotIn: (r"\bnot\s+in\b", "in"),
}
ARITHMETIC: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: (r"\+", "-"),
    ast.Sub: (r"-", "+"),
    ast.Mult: (r"\*", "/"),
    ast.Div: (r"/", "*"),
    ast.FloorDiv: (r"//", "*"),
}


@dataclass(frozen=True, slots=True)
class Change:
    """One change of one file."""

    file: str
    line: int
    kind: str
    start: int
    """In bytes, as `end`."""
    end: int
    text: str

    def shown(self, source: bytes) -> tuple[str, str]:
        """The changed lines before and after."""
        first = source.rfind(b"\n", 0, self.start) + 1
        last = source.find(b"\n", self.end)
        before, after = source[first:last], self.applied(source)[first:]
        after = after[: len(before) + len(self.text.encode()) - (self.end - self.start)]
        return " ".join(before.decode().split()), " ".join(after.decode().split())

    def is_known(self) -> bool:
        """Whether the program does the same with it, by the list of such changes."""
        return (self.file, *self.shown((ROOT / self.file).read_bytes())) in equivalents()

    def compiles(self) -> bool:
        """Whether Python takes the change, and sees one."""
        source = (ROOT / self.file).read_bytes()
        try:
            return ast.dump(ast.parse(self.applied(source))) != ast.dump(ast.parse(source))
        except SyntaxError:
            return False

    def applied(self, source: bytes) -> bytes:
        """The source with the change."""
        return source[: self.start] + self.text.encode() + source[self.end :]


@dataclass(frozen=True, slots=True)
class Tried:
    """What the tests made of one change."""

    file: str
    line: int
    kind: str
    before: str
    after: str
    noticed: bool
    by: str
    """The first test that failed, or what else showed it; "" where nothing did."""
    seconds: float


@cache
def equivalents() -> dict[tuple[str, str, str], str]:
    """File, line before and line after of changes that make no difference -> why."""
    listed = tomllib.loads(EQUIVALENTS.read_text(encoding="utf-8"))
    return {
        (file, one["before"], one["after"]): one["why"]
        for file, changes in listed.items()
        for one in changes
    }


def enums(root: Path) -> dict[str, list[str]]:
    """The members of every enum of the source, by the name of its class."""
    paths = [
        path for top in ("gputop", "topology", "probes") for path in (root / top).rglob("*.py")
    ]
    trees = (ast.parse(path.read_bytes()) for path in sorted(paths))
    classes = [one for tree in trees for one in ast.walk(tree) if isinstance(one, ast.ClassDef)]
    known = {"Enum", "IntEnum"}
    for _ in range(3):  # an enum may have a base of our own, and that one too
        known |= {one.name for one in classes if known & {ast.unparse(base) for base in one.bases}}
    return {
        one.name: [
            ast.unparse(line.targets[0]) for line in one.body if isinstance(line, ast.Assign)
        ]
        for one in classes
        if one.name in known
    }


class Changes:
    """All changes that can be made to one file."""

    def __init__(self, file: str, source: bytes, members: dict[str, list[str]]) -> None:
        self.file = file
        self.source = source
        self.members = members
        lines = source.splitlines(keepends=True)
        self._starts = [sum(map(len, lines[:number])) for number in range(len(lines) + 1)]

    def all(self) -> list[Change]:
        """All of them; what does not compile is left out by `compiles`."""
        made = self._below(ast.parse(self.source), None)
        return sorted(made, key=lambda one: (one.start, one.end, one.text))

    def _span(self, node: ast.AST) -> tuple[int, int]:
        lines: dict[str, int] = vars(node)
        return (
            self._starts[lines["lineno"] - 1] + lines["col_offset"],
            self._starts[lines["end_lineno"] - 1] + lines["end_col_offset"],
        )

    def _made(self, node: ast.AST, kind: str, start: int, end: int, text: str) -> Change:
        line = self.source.count(b"\n", 0, start) + 1
        return Change(self.file, line, kind, start, end, text)

    def _between(
        self, kind: str, left: ast.AST, right: ast.AST, pattern: str, text: str
    ) -> Iterator[Change]:
        start, end = self._span(left)[1], self._span(right)[0]
        if found := re.search(pattern.encode(), self.source[start:end]):
            yield self._made(left, kind, start + found.start(), start + found.end(), text)

    def _below(self, node: ast.AST, above: ast.AST | None) -> Iterator[Change]:
        """The changes of a node and of all below it, but of no message, type or docstring."""
        if isinstance(node, (ast.JoinedStr, ast.Raise, ast.Assert)):
            return
        if isinstance(node, ast.Call) and ast.unparse(node.func) in FOR_PEOPLE:
            return
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            return
        yield from self._of_operator(node)
        yield from self._of_constant(node, above)
        yield from self._of_statement(node)
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list") or (
                name == "keywords" and isinstance(node, ast.ClassDef)
            ):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from self._below(child, node)

    def _of_operator(self, node: ast.AST) -> Iterator[Change]:
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            for left, operator, right in zip(sides, node.ops, sides[1:], strict=False):
                yield from self._between("comparison", left, right, *COMPARISONS[type(operator)])
        elif isinstance(node, ast.BoolOp):
            here, there = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
            for left, right in zip(node.values, node.values[1:], strict=False):
                yield from self._between("and/or", left, right, rf"\b{here}\b", there)
        elif isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
            texts = (ast.JoinedStr, ast.List, ast.Tuple)
            sides = [node.left, node.right]
            if not any(
                isinstance(side, texts)
                or (isinstance(side, ast.Constant) and isinstance(side.value, (str, bytes)))
                for side in sides
            ):
                yield from self._between(
                    "arithmetic", node.left, node.right, *ARITHMETIC[type(node.op)]
                )
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            start, end = self._span(node)[0], self._span(node.operand)[0]
            opened = self.source[start:end].count(b"(")
            yield self._made(node, "not", start, end, "(" * opened)

    def _of_constant(self, node: ast.AST, above: ast.AST | None) -> Iterator[Change]:
        if isinstance(node, ast.Constant):
            value = node.value
            compared = isinstance(above, (ast.Compare, ast.MatchValue))
            if isinstance(value, bool):
                yield self._made(node, "boolean", *self._span(node), str(not value))
            elif isinstance(value, (int, float)):
                yield self._made(
                    node, "number", *self._span(node), repr(value + 1 if value < 10 else 2 * value)
                )
            elif isinstance(value, str) and compared:
                yield self._made(node, "string", *self._span(node), repr(value + "x"))
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            others = self.members.get(node.value.id, [])
            if node.attr in others and len(others) > 1:
                other = others[(others.index(node.attr) + 1) % len(others)]
                start, end = self._span(node)
                yield self._made(node, "enum", start, end, f"{node.value.id}.{other}")

    def _of_statement(self, node: ast.AST) -> Iterator[Change]:
        if isinstance(node, (ast.If, ast.IfExp, ast.While)):
            start, end = self._span(node.test)
            test = self.source[start:end].decode()
            yield self._made(node, "turned round", start, end, f"(not ({test}))")
        if isinstance(node, (ast.If, ast.For)):
            for line in node.body:
                if isinstance(line, (ast.Return, ast.Continue, ast.Break)):
                    yield self._made(line, "early return", *self._span(line), "pass")


def chosen(count: int, seed: int, only: list[str]) -> list[Change]:
    """A random share of all changes: as many of each area, or some of the named files."""
    draw = random.Random(seed)
    members = enums(ROOT)
    wanted = only or AREAS
    found: list[Change] = []
    for number, area in enumerate(wanted):
        place = ROOT / area
        paths = [place] if place.is_file() else sorted(place.rglob("*.py"))
        here = [
            change
            for path in paths
            for change in Changes(str(path.relative_to(ROOT)), path.read_bytes(), members).all()
        ]
        share = count // len(wanted) + (number < count % len(wanted)) if count else len(here)
        draw.shuffle(here)
        made = (change for change in here if change.compiles() and not change.is_known())
        found += islice(made, share)
    draw.shuffle(found)  # a run that is broken off has tried some of every area
    return found


def mirrored(file: str) -> list[str]:
    """The tests of a file: those of its folder, or of the folder above, and what stands for it."""
    path = Path("tests", file)
    folder = path.parent
    while not any((ROOT / folder).glob("test_*.py")):
        folder = folder.parent
    also = [tests for start, tests in ALSO if file.startswith(start)]
    # Of a folder and a file in it, in this order or the other, pytest 8.4 runs the file alone.
    return [*(tests for tests in also if folder not in Path(tests).parents), str(folder)]


def its_own(file: str) -> list[str]:
    """The test file of the same name, which is run first and by itself, where there is one."""
    own = f"{mirrored(file)[-1]}/test_{Path(file).name}"
    return [own] * (ROOT / own).is_file()


class Copy:
    """A copy of the checkout, in which one change at a time is made."""

    def __init__(self, place: Path) -> None:
        self.root = place / "checkout"
        shutil.copytree(ROOT, self.root, ignore=LEFT_BEHIND)
        # What Python and pytest would run is what lies in the copy, whatever is installed.
        self._variables = {
            **os.environ,
            "PYTHONPATH": str(self.root),
            "TMPDIR": str(place),
            "GPUTOP_CAPTURES": str(CAPTURES),
        }

    def run(self, tests: list[str], more: list[str], seconds: float) -> tuple[int, str]:
        """Run tests: pytest's exit code and what it said; -1 where it took too long."""
        command = [sys.executable, "-m", "pytest", "-q", "-rfE", "--tb=no", "--hypothesis-seed=0"]
        process = subprocess.Popen(
            [*command, "-p", "no:cacheprovider", *more, *tests],
            cwd=self.root,
            env=self._variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            said, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            return -1, ""
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return process.returncode, said

    def write(self, file: str, source: bytes) -> None:
        """Put another source there, and let no bytecode of the old one stay."""
        path = self.root / file
        path.write_bytes(source)
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*"):
            compiled.unlink()

    def tried(self, change: Change, sound: Sound) -> Tried:
        """Make a change, run the tests that mirror the file, and take the change back."""
        source = (ROOT / change.file).read_bytes()
        began = time.monotonic()
        self.write(change.file, change.applied(source))
        try:
            left_out = [f"--deselect={name}" for name in sound.failing]
            by = ""
            for tests in filter(None, (its_own(change.file), mirrored(change.file))):
                by = by or noticed_by(*self.run(tests, ["-x", *left_out], sound.limit))
        finally:
            self.write(change.file, source)
        before, after = change.shown(source)
        took = round(time.monotonic() - began, 1)
        return Tried(change.file, change.line, change.kind, before, after, bool(by), by, took)


def noticed_by(code: int, said: str) -> str:
    """The test that failed by what pytest said, or what else shows that all is not well, or ""."""
    if code == -1:
        return "time"
    if failed := re.search(r"^(?:FAILED|ERROR) (\S+)", said, re.MULTILINE):
        return failed[1]
    # Without its last line pytest did not come to its end: the change ended the process.
    return "" if re.search(r"\b(?:passed|skipped|no tests ran)\b.* in ", said) else "its end"


@dataclass(frozen=True, slots=True)
class Sound:
    """What tests do before anything is changed."""

    failing: tuple[str, ...]
    """Tests that fail on this machine anyway."""
    limit: float
    """The seconds after which a change counts as noticed."""


def sound(copy: Copy, tests: list[str]) -> Sound:
    """Run tests without a change."""
    began = time.monotonic()
    code, said = copy.run(tests, [], 1800)
    if code not in (0, 1):
        raise SystemExit(f"{tests} cannot run here (exit code {code}):\n{said[-2000:]}")
    failing = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", said, re.MULTILINE)
    return Sound(tuple(failing), max(SECONDS, TIMES_AS_LONG * (time.monotonic() - began)))


class Before:
    """What sets of tests do without a change: each is run when it is needed first."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: dict[tuple[str, ...], Future[Sound]] = {}

    def of(self, copy: Copy, tests: list[str]) -> Sound:
        """Run these tests in a sound copy, if nobody has; waits for who does."""
        with self._lock:
            known = self._known.get(tuple(tests))
            mine = self._known.setdefault(tuple(tests), Future())
        if known is None:
            try:
                mine.set_result(sound(copy, tests))
            except BaseException as error:  # noqa: BLE001 - raised where the result is taken
                mine.set_exception(error)
            for name in mine.result().failing:
                print(f"fails without a change, left out: {name}", flush=True)
        return mine.result()


def refuse_blindness(copy: Copy, file: str) -> None:
    """End where a change that every test must notice is not: then something else is imported."""
    source = (ROOT / file).read_bytes()
    copy.write(
        file, b"raise RuntimeError\n" + source.replace(b"from __future__ import annotations", b"")
    )
    code, said = copy.run(mirrored(file), ["-x"], SECONDS)
    copy.write(file, source)
    if code in (0, 5):
        raise SystemExit(f"the copy is not what the tests import:\n{said[-2000:]}")


def main() -> None:
    """Make the changes, and print those that nothing noticed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=0, help="0: all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--only", action="append", default=[], help="a file or folder")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    changes = chosen(asked.count, asked.seed, asked.only)
    with tempfile.TemporaryDirectory(prefix="mutations-") as folder:
        copies: SimpleQueue[Copy] = SimpleQueue()
        before = Before()
        places = [Path(folder) / str(number) for number in range(asked.processes)]
        for place in places:
            place.mkdir()
            copies.put(Copy(place))

        def in_a_copy(work: Callable[..., T], *given: object) -> T:
            copy = copies.get()
            try:
                return work(copy, *given)
            finally:
                copies.put(copy)

        def tried(copy: Copy, change: Change) -> Tried:
            return copy.tried(change, before.of(copy, mirrored(change.file)))

        with ThreadPoolExecutor(asked.processes) as pool:
            in_a_copy(refuse_blindness, changes[0].file)
            tries = [pool.submit(in_a_copy, tried, change) for change in changes]
            report(tries, asked.out)


def report(tries: list[Future[Tried]], out: Path | None) -> None:
    """Print what was not noticed as it comes, then the counts of each area."""
    counts: Counter[tuple[str, bool]] = Counter()
    with out.open("w", encoding="utf-8") if out else contextlib.nullcontext() as file:
        for one in as_completed(tries):
            done = one.result()
            counts["/".join(done.file.split("/")[:2]), done.noticed] += 1
            if file:
                print(json.dumps(asdict(done), ensure_ascii=False), file=file, flush=True)
            if not done.noticed:
                print(f"{done.file}:{done.line}: {done.before}  ->  {done.after}", flush=True)
    for area in [*sorted({area for area, _ in counts}), None]:
        noticed, not_noticed = (
            sum(n for (at, how), n in counts.items() if area in (None, at) and how is which)
            for which in (True, False)
        )
        share = noticed / (noticed + not_noticed)
        print(f"{area or 'all':24}{noticed:4} of {noticed + not_noticed:4} noticed: {share:.0%}")


if __name__ == "__main__":
    main()

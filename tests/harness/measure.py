"""Measures Python trees the same way, so that two states of the code can be compared.

    python -m tests.harness.measure SPECS.json
    python -m tests.harness.measure SPECS.json --list cc10

SPECS.json is `[[name, [folders], [excluded]], ...]`; a file whose path holds an excluded text is
left out. Without it, gputop/, topology/ and probes/ of this checkout are measured, together and
each. `--list COUNT` prints the places of one count instead of the table, `--json` all counts.

Sizes:

- files, lines, median, max, under40: files, and their lines as an editor numbers them.
- code: lines with a token that is no comment and no docstring; a bare string under a field is a
  docstring too. codeni: code less the lines of imports, which is what "lines of logic" means here.
- doc, comment, blank, imports: lines of each kind.

Functions, each with those inside it:

- cc10, cc15, cc25: functions whose cyclomatic complexity is over 10, 15, 25: 1, and 1 more for each
  If, For, While, except, conditional expression, comprehension, assert and case, and for each `and`
  or `or` behind the first operand. cc25own: those over 25 outside PORTED, which follows NCCL.
- f50: functions of over 50 lines. args6: functions with over 6 parameters.

Ideas that stand in several places:

- classes, records: classes, and those that are dataclasses or msgspec structs.
- home: modules with exactly one importer, which lies in the same folder. Imports inside functions
  and under TYPE_CHECKING count as imports; `__init__` and `__main__` are neither. homefree: those
  of them that no string names (a registry, another process) and no function imports late.
- closed: fields annotated `str` or `str | None` whose values are closed: the name is one of NOUNS,
  or the docstring begins with "One of" or lists its values, as in '"a", "b" or "c"'. A field whose
  docstring says whose word it is ("NCCL's word", "as NVML names it") mirrors another program and
  does not count, nor does a sentence ("in words") or a key "of the probe's own choice".
- literals: comparisons of an attribute with a word in quotes, or with a tuple of such words.
- baseless: exception classes that do not derive from one of BASES.
- printers: functions that read `disproof` of a finding and two more of FINDING, to put them in
  words. A function that only copies a field into the field of the same name prints nothing.
- signs: modules with a table that gives words two or more SIGNS: a dict, a `zip`, a class of
  constants. Several tables of one module count once.
- byaddress: dict comprehensions whose key is `x.address`.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import io
import json
import re
import statistics
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
TOPS = ("gputop", "topology", "probes")
PORTED = ("topology/nccl/",)
NOUNS = {"basis", "direction", "kind", "level", "mode", "outcome", "phase", "severity", "state",
         "status", "sureness", "topic", "verdict", "weight"}  # fmt: skip
BASES = frozenset({"GputopError", "WorkerError"})
FINDING = frozenset({"title", "evidence", "consequence", "impact", "fix"})
SIGNS = frozenset("✓✗▼▽?")
WORD = re.compile(r"[A-Za-z][\w \-]*$")
LISTED = re.compile(r'"[\w -]+"(, "[\w -]+")*,? (or|and) "[\w -]+"')
OTHERS = re.compile(
    r"(NCCL|RCCL|NVML|amdsmi|PyTorch|Slurm|[Kk]ernel|[Dd]river|nvidia-smi)"
    r"(('s| has a) .*(word|name)s?\b| .*(writes|calls|names|says|prints))"
    r"|, in words\.|own choice\b"
)
BRANCHES = (
    ast.If,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.ExceptHandler,
    ast.IfExp,
    ast.Assert,
    ast.comprehension,
    ast.match_case,
)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
EXCEPTIONS = frozenset(
    name
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, BaseException)
)


class Place(NamedTuple):
    """A line, and what stands there."""

    path: str
    line: int
    what: str


class Function(NamedTuple):
    """A function, and how large and branchy it is."""

    place: Place
    lines: int
    complexity: int
    parameters: int
    documented: bool


class Source:
    """One file, parsed once."""

    def __init__(self, path: Path, root: Path) -> None:
        self.path = path
        self.name = path.relative_to(root).as_posix()
        self.text = path.read_text(encoding="utf-8", errors="replace")
        self.tree = ast.parse(self.text)
        self.nodes = tuple(ast.walk(self.tree))

    @property
    def dotted(self) -> str:
        """The name of the module, from the folder that was given."""
        return self.name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @property
    def lines(self) -> int:
        """Lines as an editor numbers them."""
        return len(self.text.splitlines())

    def at(self, node: ast.AST, what: str) -> Place:
        """The place of a node of this file."""
        return Place(self.name, getattr(node, "lineno", 1), what)

    @cached_property
    def functions(self) -> tuple[Function, ...]:
        """Every function, those inside others too."""
        return tuple(self._function(node) for node in self.nodes if isinstance(node, FUNCTIONS))

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Function:
        complexity = complexity_of(node)
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        given = node.args
        parameters = len(given.posonlyargs) + len(given.args) + len(given.kwonlyargs)
        place = self.at(node, f"{node.name}: complexity {complexity}, {lines} lines")
        return Function(place, lines, complexity, parameters, bool(ast.get_docstring(node)))

    @cached_property
    def inside(self) -> frozenset[int]:
        """Ids of the nodes inside functions."""
        outer = (node for node in self.nodes if isinstance(node, FUNCTIONS))
        return frozenset(id(node) for function in outer for node in ast.walk(function))

    @cached_property
    def kinds(self) -> dict[str, int]:
        """Lines of each kind."""
        doc, imports = set[int](), set[int]()
        for node in self.nodes:
            if isinstance(node, ast.Expr) and is_text(node.value):
                doc |= _rows(node)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                imports |= _rows(node)
        code, comments = set[int](), set[int]()
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            if token.type == tokenize.COMMENT:
                comments.add(token.start[0])
            elif token.string.strip():
                code |= set(range(token.start[0], token.end[0] + 1))
        return {
            "code": len(code - doc),
            "codeni": len(code - doc - imports),
            "imports": len(imports - doc),
            "doc": len(doc),
            "comment": len(comments - code),
            "blank": sum(not line.strip() for line in self.text.splitlines()),
        }


def _rows(node: ast.stmt) -> set[int]:
    return set(range(node.lineno, (node.end_lineno or node.lineno) + 1))


def is_text(node: ast.AST | None) -> bool:
    """Whether a node is a text as it stands."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def complexity_of(function: ast.AST) -> int:
    """Cyclomatic complexity, by the rule at the head of this file."""
    found = 1
    for node in ast.walk(function):
        if isinstance(node, BRANCHES):
            found += 1
        elif isinstance(node, ast.BoolOp):
            found += len(node.values) - 1
    return found


@cache
def source(path: Path, root: Path) -> Source:
    """A file of one or several trees, read once."""
    return Source(path, root)


class Tree:
    """All files of one line of the specification."""

    def __init__(self, folders: Iterable[Path], excluded: Iterable[str] = ()) -> None:
        self.files = tuple(
            source(path, folder.parent)
            for folder in folders
            for path in sorted(folder.rglob("*.py"))
            if "__pycache__" not in path.parts and not any(text in str(path) for text in excluded)
        )

    @cached_property
    def functions(self) -> tuple[Function, ...]:
        """Every function of every file."""
        return tuple(found for file in self.files for found in file.functions)

    @cached_property
    def classes(self) -> tuple[tuple[Source, ast.ClassDef], ...]:
        """Every class with its file."""
        return tuple(
            (file, node)
            for file in self.files
            for node in file.nodes
            if isinstance(node, ast.ClassDef)
        )

    def over(self, complexity: int) -> list[Place]:
        """Functions more branchy than this."""
        return [found.place for found in self.functions if found.complexity > complexity]

    @cached_property
    def places(self) -> dict[str, list[Place]]:
        """The places of each count that has some."""
        home = list(self._home())
        branchy = self.over(25)
        return {
            "cc10": self.over(10),
            "cc15": self.over(15),
            "cc25": branchy,
            "cc25own": [place for place in branchy if not place.path.startswith(PORTED)],
            "f50": [found.place for found in self.functions if found.lines > 50],
            "args6": [found.place for found in self.functions if found.parameters > 6],
            "classes": [file.at(node, node.name) for file, node in self.classes],
            "records": [file.at(node, node.name) for file, node in self.classes if _record(node)],
            "home": [place for place, _ in home],
            "homefree": [place for place, free in home if free],
            "closed": list(self._closed()),
            "literals": list(self._literals()),
            "baseless": list(self._baseless()),
            "printers": list(self._printers()),
            "signs": list(self._signs()),
            "byaddress": list(self._by_address()),
        }

    def sizes(self) -> dict[str, int | float]:
        """Counts of lines, files and functions."""
        lines = sorted(file.lines for file in self.files)
        kinds = Counter[str]()
        for file in self.files:
            kinds.update(file.kinds)
        return {
            "files": len(lines),
            "lines": sum(lines),
            "median": int(statistics.median(lines)),
            "max": lines[-1],
            "under40": sum(count < 40 for count in lines),
            **kinds,
            "functions": len(self.functions),
            "fmedian": statistics.median(found.lines for found in self.functions),
            "fmax": max(found.lines for found in self.functions),
        }

    def _home(self) -> Iterator[tuple[Place, bool]]:
        """Modules with one importer beside them, and whether nothing else loads them."""
        known = {
            name: file for file in self.files for name in (file.dotted, "gputop." + file.dotted)
        }
        importers, late = defaultdict[str, set[str]](set), set[str]()
        named = set(self._named())
        for file in self.files:
            for node in file.nodes:
                for name in _targets(file, node, known):
                    importers[known[name].name].add(file.name)
                    if id(node) in file.inside:
                        late.add(known[name].name)
        for file in self.files:
            if file.path.name in ("__init__.py", "__main__.py") or len(importers[file.name]) != 1:
                continue
            (only,) = importers[file.name]
            beside = Path(only).parent == Path(file.name).parent
            if beside and not only.endswith("__init__.py"):
                ends = (file.path.stem + ".py", ".".join(file.dotted.split(".")[-2:]))
                free = file.name not in late and named.isdisjoint(ends)
                yield Place(file.name, 1, f"only {only} imports it"), free

    def _named(self) -> Iterator[str]:
        """The ends of modules that a string names: `folder.module`, or `module.py`."""
        for file in self.files:
            for node in file.nodes:
                text = node.value if isinstance(node, ast.Constant) else None
                if not isinstance(text, str) or not re.fullmatch(r"[\w.-]+", text):
                    continue
                word = text.replace("-", "_").strip(".")
                yield (
                    word
                    if "." not in word or text.endswith(".py")
                    else ".".join(word.split(".")[-2:])
                )
                if file.path.name == "__init__.py":  # a list of the modules beside it
                    yield ".".join([*file.dotted.split(".")[-1:], *word.split(".")][-2:])

    def _closed(self) -> Iterator[Place]:
        for file, owner in self.classes:
            for node, below in zip(owner.body, [*owner.body[1:], None], strict=True):
                if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
                    continue
                if ast.unparse(node.annotation) not in ("str", "str | None"):
                    continue
                is_doc = isinstance(below, ast.Expr) and is_text(below.value)
                doc = (
                    ast.literal_eval(below.value) if is_doc and isinstance(below, ast.Expr) else ""
                )
                listed = doc.startswith("One of") or LISTED.search(doc)
                if (node.target.id in NOUNS or listed) and not OTHERS.search(doc):
                    yield file.at(node, f"{owner.name}.{node.target.id}: {doc.splitlines()[:1]}")

    def _literals(self) -> Iterator[Place]:
        for file in self.files:
            for node in file.nodes:
                if not isinstance(node, ast.Compare):
                    continue
                parts = [node.left, *node.comparators]
                sought = isinstance(node.ops[0], ast.In | ast.NotIn) and is_text(node.left)
                attribute = any(isinstance(part, ast.Attribute) for part in parts)
                if attribute and not sought and any(map(_is_word, parts)):
                    yield file.at(node, ast.unparse(node)[:100])

    def _baseless(self) -> Iterator[Place]:
        bases = {
            node.name: [ast.unparse(base).rpartition(".")[2] for base in node.bases]
            for _, node in self.classes
        }

        def ancestors(name: str, met: frozenset[str] = frozenset()) -> set[str]:
            above = set(bases.get(name, ())) - met
            return above.union(*(ancestors(base, met | {name}) for base in above))

        for file, node in self.classes:
            above = ancestors(node.name)
            raised = any(base in EXCEPTIONS or base.endswith("Exception") for base in above)
            if raised and not above & BASES and node.name not in BASES:
                yield file.at(node, f"{node.name}({', '.join(map(ast.unparse, node.bases))})")

    def _printers(self) -> Iterator[Place]:
        for file in self.files:
            for node in file.nodes:
                if not isinstance(node, FUNCTIONS):
                    continue
                copied = {
                    id(part.value)
                    for part in ast.walk(node)
                    if isinstance(part, ast.keyword)
                    and isinstance(part.value, ast.Attribute)
                    and part.arg == part.value.attr
                }
                read = {
                    part.attr
                    for part in ast.walk(node)
                    if isinstance(part, ast.Attribute) and id(part) not in copied
                }
                if "disproof" in read and len(read & FINDING) >= 2:
                    yield file.at(node, node.name)

    def _signs(self) -> Iterator[Place]:
        for file in self.files:
            tables = (node for node in file.nodes if _is_table(node))
            held = (
                (node, {part.value for part in ast.walk(node)
                        if isinstance(part, ast.Constant) and part.value in SIGNS})
                for node in tables
            )  # fmt: skip
            found = next((node for node, signs in held if len(signs) >= 2), None)
            if found is not None:
                yield file.at(found, "a table with signs")

    def _by_address(self) -> Iterator[Place]:
        for file in self.files:
            for node in file.nodes:
                key = node.key if isinstance(node, ast.DictComp) else None
                if isinstance(key, ast.Attribute) and key.attr == "address":
                    yield file.at(node, ast.unparse(node)[:100])


def _record(node: ast.ClassDef) -> bool:
    made = any("dataclass" in ast.unparse(found) for found in node.decorator_list)
    return made or any("Struct" in ast.unparse(base) for base in node.bases)


def _is_word(node: ast.expr) -> bool:
    """Whether it is a word in quotes, or several of them."""
    if isinstance(node, ast.Tuple | ast.Set | ast.List):
        return bool(node.elts) and all(map(_is_word, node.elts))
    return isinstance(node, ast.Constant) and bool(WORD.match(str(node.value))) and is_text(node)


def _is_table(node: ast.AST) -> bool:
    """Whether it may give words their signs."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id == "zip"
    constants = isinstance(node, ast.ClassDef) and all(
        isinstance(part, (ast.Assign, ast.Expr, *FUNCTIONS)) for part in node.body
    )
    return isinstance(node, ast.Dict) or constants


def _targets(file: Source, node: ast.AST, known: dict[str, Source]) -> Iterator[str]:
    """Modules that one statement imports."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name in known)
    if not isinstance(node, ast.ImportFrom):
        return
    base = node.module or ""
    if node.level:
        package = file.dotted.split(".")
        if file.path.name != "__init__.py":
            package.pop()
        above = package[: len(package) - node.level + 1]
        base = ".".join([*above, *filter(None, [base])])
    modules = {f"{base}.{alias.name}" for alias in node.names} & known.keys()
    names = {f"{base}.{alias.name}" for alias in node.names} - modules
    yield from modules
    if names and base in known:
        yield base


def measured(tree: Tree) -> dict[str, int | float]:
    """Every count of one tree."""
    return {**tree.sizes(), **{name: len(found) for name, found in tree.places.items()}}


def _trees(specs: Path | None) -> dict[str, Tree]:
    if specs is None:
        groups = {"all": TOPS, **{top: (top,) for top in TOPS}}
        return {name: Tree(ROOT / top for top in tops) for name, tops in groups.items()}
    return {
        name: Tree(map(Path, [folders] if isinstance(folders, str) else folders), excluded)
        for name, folders, excluded in json.loads(specs.read_text(encoding="utf-8"))
    }


def main() -> int:
    """Print the table of all counts, or the places of one."""
    parser = argparse.ArgumentParser(prog="python -m tests.harness.measure")
    parser.add_argument("specs", type=Path, nargs="?")
    parser.add_argument("--list", metavar="COUNT", help="print the places of one count")
    parser.add_argument("--json", action="store_true", help="print all counts as JSON")
    given = parser.parse_args()
    trees = _trees(given.specs)
    if given.list:
        for name, tree in trees.items():
            found = tree.places.get(given.list)
            if found is None:
                parser.error(f"--list takes one of {', '.join(tree.places)}")
            for place in found:
                print(f"{name}\t{place.path}:{place.line}\t{place.what}")
        return 0
    counts = {name: measured(tree) for name, tree in trees.items()}
    if given.json:
        print(json.dumps(counts, indent=1))
        return 0
    print("count".ljust(12) + "".join(name.rjust(max(12, len(name) + 2)) for name in counts))
    for count in next(iter(counts.values())):
        row = (str(found[count]).rjust(max(12, len(name) + 2)) for name, found in counts.items())
        print(count.ljust(12) + "".join(row))
    return 0


if __name__ == "__main__":
    sys.exit(main())

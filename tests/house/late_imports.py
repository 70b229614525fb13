"""Imports inside functions: where they stand, and what each saves on the way to a first answer.

`python -m tests.house.late_imports` prints them as late_imports.toml keeps them.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.support.layers import nodes
from tests.support.places import RECORDINGS, ROOT

START = """
import json, sys
{body}
print(json.dumps(sorted(sys.modules)))
"""
COMMAND = """
import contextlib, io
from gputop.__main__ import run
with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
    run({arguments!r})
"""
PICTURE = """
import asyncio
import gputop.live.refresh
import gputop.session
from gputop.app import GpuTop
from gputop.topology.recorded.feeds import DemoFeed
from gputop.topology.node import Node
from gputop.topology.report import Report

async def first_picture():
    app = GpuTop()
    async with app.run_test(size=(120, 40)) as pilot:
        app.report = Report(Node(DemoFeed({demo!r}).snapshot()))
        await pilot.pause()
        loaded.update(sys.modules)

loaded = set()
asyncio.run(first_picture())
print(json.dumps(sorted(loaded)))
"""
SNAPSHOT = str(RECORDINGS / "hgx-h200-4gpu-live" / "snapshot.json")
STARTS = {
    "reading begins": "import gputop.session",
    "first picture": PICTURE.format(demo="hgx-h100-8"),
    "check --quick": COMMAND.format(arguments=["check", "--quick", "--demo", "hgx-h100-8"]),
    "explain --from": COMMAND.format(arguments=["explain", "--from", SNAPSHOT]),
    "sources begin": "from gputop.topology.sources import NAMES, live\nlive.load_sources()",
    "library reads": f"import gputop\ngputop.load({SNAPSHOT!r}).gpus",
    "agents listen": "import gputop.agents.serving",
    "mcp --skill": COMMAND.format(arguments=["mcp", "--skill"]),
    "--help": COMMAND.format(arguments=["--help"]),
    "--version": "import gputop.__main__\ngputop.__main__._print_version()",
}
"""What has to be quick, and the code that does it in a fresh interpreter."""


def modules() -> dict[str, Path]:
    """Every module of the program by its name, packages included."""
    found = {}
    for top in ("gputop", "topology", "probes", "themes"):
        for path in sorted((ROOT / top).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            name = ".".join(parts if top == "gputop" else ("gputop", *parts))
            found[name.removesuffix(".__init__")] = path
    return found


_INDENTED = re.compile(r"^[ \t]+(?:import|from) ", re.MULTILINE)
"""How a line begins that imports inside something: few files have one."""


@cache
def late_imports() -> dict[str, set[str]]:
    """Module -> modules that it imports inside functions; the probes stand apart.

    A probe runs under a foreign Python, where a library may be missing.
    """
    known = modules()
    found: dict[str, set[str]] = defaultdict(set)
    for name, path in known.items():
        if name.startswith("gputop.probes") or not _INDENTED.search(path.read_text("utf-8")):
            continue
        for function in nodes(path):
            if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                for node in ast.walk(function):
                    found[name].update(_targets(node, name, known))
    return {name: targets for name, targets in found.items() if targets}


def _targets(node: ast.AST, name: str, known: dict[str, Path]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            package = name.split(".")
            if known[name].name != "__init__.py":
                package.pop()
            package = package[: len(package) - node.level + 1]
            base = ".".join([*package, *base.split(".")] if base else package)
        for alias in node.names:
            target = f"{base}.{alias.name}"
            yield target if target in known else base


def loaded_by(start: str) -> set[str]:
    """The modules of the program that are loaded once a start has given its answer."""
    ended = subprocess.run(
        [sys.executable, "-c", START.format(body=STARTS[start])],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=120,
        check=True,
    )
    # What a library prints stands before it; the first of two lists is the one that counts.
    lists = [line for line in ended.stdout.splitlines() if line.startswith("[")]
    return set(json.loads(lists[0]))


def savings() -> dict[str, dict[str, list[str]]]:
    """Start -> module -> what it would load besides, were its late imports at its top."""
    late = late_imports()
    found: dict[str, dict[str, list[str]]] = {}
    for start in STARTS:
        loaded = loaded_by(start)
        found[start] = {
            name: sorted(late[name] - loaded)
            for name in sorted(late)
            if name in loaded and late[name] - loaded
        }
    return found


if __name__ == "__main__":
    for start, saved in savings().items():
        print(f'["{start}"]')
        for name, targets in saved.items():
            print(f'"{name}" = [')
            print("".join(f'    "{target}",\n' for target in targets) + "]")
        print()

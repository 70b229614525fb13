"""All output leaves through gputop/terminal/output.py, or as a file through writing.py."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from tests.support.layers import nodes, python_files
from tests.support.places import ROOT

ALLOWED = {
    "gputop/terminal/output.py": "the place",
    "gputop/terminal/writing.py": "the place for files",
    "gputop/terminal/appending.py": "the place for files that grow while they are written",
    "gputop/terminal/early_screen.py": "what Textual does later: the screen taken and given back",
    "gputop/terminal/painting/driver.py": "the terminal of the app, opened for the painter, and "
    "a pipe of our own, to wake who waits for keys",
    "gputop/terminal/painting/sender.py": "what the painter sends to it",
    "gputop/checking/deadline.py": "a pipe of our own, to the process that waits for the answer",
    "gputop/terminal/hangup.py": "what gives the terminal back, from a signal handler",
    "gputop/__main__.py": "the version, before anything is imported",
    "gputop/installation/packages.py": "what is missing, where the place cannot be imported",
    "gputop/measuring/history.py": "a file of its own that nobody asked for",
}
OPENS = {"O_WRONLY", "O_RDWR", "O_CREAT"}
"""Flags of os.open for what will be written to."""


def _ways_out(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Where something is written, or opened to be written to."""
    for node in nodes:
        if isinstance(node, ast.Attribute) and node.attr in OPENS:
            yield f"line {node.lineno}: os.{node.attr}"
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        owner, _, name = called.rpartition(".")
        if called == "print" or name in ("write_text", "write_bytes"):
            yield f"line {node.lineno}: {called}()"
        if name in ("write", "writelines") and owner.split(".")[0] in ("sys", "os"):
            yield f"line {node.lineno}: {called}()"
        if name == "open":
            modes = [part.value for part in node.args if isinstance(part, ast.Constant)]
            if any(isinstance(mode, str) and set(mode) & set("wax+") for mode in modes):
                yield f"line {node.lineno}: {called}() to write"


def test_nothing_is_written_around_the_one_place() -> None:
    found = {
        f"{path}: {way}"
        for path in python_files(ROOT)
        if path.parts[0] in ("gputop", "topology", "themes") and str(path) not in ALLOWED
        for way in _ways_out(nodes(ROOT / path))
    }
    assert found == set()


def test_a_way_around_is_found() -> None:
    for line in (
        "print('x')",
        "sys.stdout.write('x')",
        "sys.__stderr__.write('x')",
        "sys.stdout.buffer.write(b'x')",
        "os.write(1, b'x')",
        "Path('x').write_text('x')",
        "open('x', 'w')",
        "os.open('x', os.O_WRONLY)",
        "Path('x').open('ab')",
    ):
        assert list(_ways_out(ast.walk(ast.parse(line)))), line
    for line in ("path.open('rb')", "open(path)", "click.echo('x')", "module.write(node)"):
        assert not list(_ways_out(ast.walk(ast.parse(line)))), line

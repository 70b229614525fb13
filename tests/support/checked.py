"""`gputop check` in this process: exit code, stdout and stderr."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gputop.__main__ import run
from gputop.topology.model.snapshot import NodeSnapshot, encode


class Done(NamedTuple):
    """How it ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """What --json printed."""
        return json.loads(self.out)

    @property
    def ids(self) -> set[str]:
        """Ids of the findings of --json."""
        return {finding["id"] for finding in self.document["findings"]}


def checked(capsys: pytest.CaptureFixture[str], *arguments: str) -> Done:
    """Run `gputop check` with these arguments."""
    capsys.readouterr()
    code = run(["check", *arguments])
    printed = capsys.readouterr()
    return Done(code, printed.out, printed.err)


def saved(snapshot: NodeSnapshot, path: Path) -> str:
    """Write a snapshot; the path as an argument."""
    path.write_bytes(encode(snapshot))
    return str(path)

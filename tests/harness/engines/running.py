"""Runs a line of an engine and then asks what the files that are there say together."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from tests.harness.engines.cases import LIST
from tests.support.places import ROOT

LIMIT_SECONDS = 300.0


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """How a command ended."""

    code: int | None
    """None where it did not end by itself."""
    seconds: float
    output: str
    """Both streams."""


def run(
    command: list[str], environment: Mapping[str, str], where: Path, limit: float = LIMIT_SECONDS
) -> Ran:
    """Run a command; after the limit its whole session is ended."""
    began = time.monotonic()
    out = where / "output"
    with (
        out.open("wb") as stream,
        subprocess.Popen(
            command,
            cwd=where,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        ) as process,
    ):
        try:
            code: int | None = process.wait(limit)
        except subprocess.TimeoutExpired:
            code = None
            os.killpg(process.pid, signal.SIGKILL)
    seconds = time.monotonic() - began
    return Ran(code=code, seconds=seconds, output=out.read_text(errors="replace"))


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What `gputop fleet` said of the files."""

    code: int | None
    seconds: float
    document: dict[str, Any]
    text: str
    """The plain answer, which is asked for apart."""


def fleet(files: Path, where: Path, nodes: str = LIST) -> Said:
    """Ask it, once as JSON and once as text."""
    command = [sys.executable, "-m", "gputop", "fleet", str(files), "--nodes", nodes]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1", "COLUMNS": "160"}
    text = run(command, environment, where)
    ran = run(["bash", "-c", '"$@" 2>/dev/null', "bash", *command, "--json"], environment, where)
    try:
        document = json.loads(ran.output)
    except ValueError as error:
        raise RuntimeError(f"gputop fleet gave no JSON: {text.output[:2000]}") from error
    return Said(code=ran.code, seconds=ran.seconds, document=document, text=text.output)

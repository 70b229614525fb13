"""What a plain command must not load: a cold start reads each module from a slow disk."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.grid import share
from tests.support.places import ROOT

HEAVY = ("networkx", "textual", "rich", "psutil", "asyncio", "torch")
"""Libraries of screens, drawings and measurements."""
UNASKED = ("difflib", "tomllib", "inspect", *HEAVY)
"""The same, and what only a mistake, a fault in the kernel's log or the types of msgspec need."""
MOST_OF_OURS = 106
"""Modules of gputop that `gputop.read()` imports before a source has answered: 105 now."""
ASKED = """
import json, sys
from gputop.__main__ import _import_msgspec
_import_msgspec()
import gputop
gputop.load  # the module library, which read() imports too
import gputop.reading
from gputop.topology.sources import live
live.load_sources()
print(json.dumps(sorted(sys.modules)))
"""
FIRST = """
import json, sys
from gputop.__main__ import _import_msgspec
_import_msgspec()
{imports}
print(json.dumps([name for name in ("inspect", "typing_extensions") if name in sys.modules]))
"""
RUN = """
import json, sys
from gputop.__main__ import run
code = run(sys.argv[1:])
print(json.dumps([code, sorted(set({heavy}) & set(sys.modules))]), file=sys.stderr)
"""


@pytest.mark.parametrize(
    "command",
    share(
        [
            "check --quick --demo hgx-h100-8",
            "check --quick --demo mi300x-8",
            "check --quick --demo sick-h100-8",
            "snapshot --demo mi300x-8",
            "topo --demo hgx-h100-8",
            "explain --demo mi300x-8",
            "flags NCCL_ALGO --demo hgx-h100-8",
        ],
        3,
    ),
)
def test_a_plain_command_loads_no_heavy_library(command: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", RUN.format(heavy=HEAVY), *command.split()],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
        check=True,
    )
    code, loaded = json.loads(ended.stderr.splitlines()[-1])
    assert code in (0, 1, 2)
    assert ended.stdout
    assert loaded == []


@pytest.mark.skipif(sys.version_info < (3, 11), reason="typing lacks what msgspec asks")
def test_the_first_picture_loads_nothing_that_only_types_need() -> None:
    asked = "import gputop.session, gputop.first_picture"
    printed = subprocess.run(
        [sys.executable, "-c", FIRST.format(imports=asked)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
        check=True,
    ).stdout
    assert json.loads(printed) == []


@pytest.mark.skipif(sys.version_info < (3, 11), reason="typing lacks what msgspec asks")
def test_a_reading_of_the_library_imports_what_asks_and_no_more() -> None:
    printed = subprocess.run(
        [sys.executable, "-c", ASKED], capture_output=True, text=True, cwd=ROOT, timeout=60,
        check=True,
    ).stdout  # fmt: skip
    loaded = set(json.loads(printed))
    ours = {name for name in loaded if name.partition(".")[0] == "gputop"}
    assert loaded.intersection(UNASKED) == set()
    assert len(ours) <= MOST_OF_OURS
    apart = ("answers", "checking", "measuring", "topology.diagnosis", "topology.expectation",
             "topology.nccl", "topology.wiring", "topology.recorded")  # fmt: skip
    assert {
        name for name in ours if name.startswith(tuple(f"gputop.{one}" for one in apart))
    } == set()

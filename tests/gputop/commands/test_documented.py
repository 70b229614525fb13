"""Every command that README and the manual name works as it is written there."""

from __future__ import annotations

import os
import re
import shlex

import click
import pytest

from gputop.commands.root import root
from gputop.exits import OWN_ERROR, USAGE
from tests.support.command import gputop_here
from tests.support.places import ROOT, TESTS

FOR_CHANGES = "adding.md"
"""It names commands without their arguments, for those who add something."""
PAGES = (
    "README.md",
    *sorted(
        str(path.relative_to(ROOT)) for path in ROOT.glob("docs/*.md") if path.name != FOR_CHANGES
    ),
)
DEMO = "pcie-l40s-8"
LOG = TESTS / "recordings" / "nccl-logs" / "h200-p2pdis.log.gz"
DUMP = TESTS / "recordings" / "flight" / "sizes_0"
XML = next((TESTS / "recordings" / "nccl-topologies").rglob("*.xml"))
WRITTEN = ("node.json", "before.json", "healthy-sister.json")
"""Snapshots that a reader has written."""
NOT_RUN = {
    "probe": "measures",
    "fleet": "reads what many nodes wrote",
    "-": "reads stdin",
    "log FILE|FOLDER": "stands for the files of a reader",
    "check --full": "measures",
    "check --probe": "measures",
}
"""Commands that are parsed alone: what begins or ends so."""
_FENCED = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`(gputop(?: [^`\n]+)?)`")


def named(page: str) -> list[str]:
    """The commands on a page, in code and in blocks of shell."""
    text = (ROOT / page).read_text("utf-8")
    lines = [line.strip() for block in _FENCED.findall(text) for line in block.splitlines()]
    found = [*_INLINE.findall(text), *(line for line in lines if line.startswith("gputop"))]
    return sorted({command.replace("\\|", "|").partition("#")[0].strip() for command in found})


COMMANDS = sorted({command for page in PAGES for command in named(page)})


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The files that a reader has, under the names that the pages give them."""
    folder = tmp_path_factory.mktemp("reader")
    found = {"nccl.log": str(LOG), "topo.xml": str(XML), "trace_0": str(DUMP)}
    found["4711"] = str(os.getpid())
    for name in WRITTEN:
        found[name] = str(folder / name)
        assert gputop_here("snapshot", "--demo", DEMO, "-o", found[name]).returncode == 0
    return {**found, "check.xml": str(folder / "check.xml")}


def test_the_pages_name_commands() -> None:
    assert len(COMMANDS) > 40
    assert {"gputop", "gputop topo", "gputop check --quick"} <= set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_documented_command_works(command: str, files: dict[str, str]) -> None:
    words = [files.get(word, word) for word in shlex.split(command)[1:]]
    parsed = _parsed(list(words))
    if parsed is None or any(command[7:].startswith(name) for name in NOT_RUN) or words[-1] == "-":
        return
    if parsed == "check" and "-o" in words:
        return  # writes a file for each node, which stays
    if not {"--demo", "--from", "--list", "--pid"} & set(words):
        words += ["--demo", DEMO] if words[0] not in ("completion", "doctor") else []
    done = gputop_here(*words)
    assert done.returncode not in (USAGE, OWN_ERROR), done.stderr
    assert done.stdout or "-o" in words


def _parsed(words: list[str]) -> str | None:
    """The name of the subcommand, its options read by click; None where the app opens."""
    with root.make_context("gputop", list(words)) as context:
        rest = [*context._protected_args, *context.args]
        if not rest:
            return None
        name, command, arguments = root.resolve_command(context, rest)
        assert isinstance(command, click.Command)
        command.make_context(name or "", arguments, parent=context).close()
        return name

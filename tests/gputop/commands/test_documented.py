"""Every command that README, the manual and the helps name works as it is written there."""

from __future__ import annotations

import os
import re
import shlex
import time

import click
import msgspec
import pytest

from gputop.commands.examples import EXAMPLES
from gputop.commands.fleet.made_up import make_fleet
from gputop.commands.root import root
from gputop.exits import OWN_ERROR, USAGE
from gputop.topology.model.snapshot import NodeSnapshot
from tests.grid import covering
from tests.support.command import gputop_here
from tests.support.places import ROOT, TESTS
from tests.support.sessions import demo_readings, write_recording

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
    "probe nccl": "is not simulated",
    "probe net": "measures between nodes",
    "probe --history": "compares what was measured here",
    "-": "reads stdin",
    "mcp --redact": "waits for an agent",
    "metrics --textfile": "writes again and again",
    "metrics --listen": "serves until it is ended",
    "metrics --otlp": "sends to a collector, by packages of its own",
    "record": "goes on until it is ended",
    "events --follow": "goes on until it is ended",
    "watch": "goes on until it is ended",
    "log FILE|FOLDER": "stands for the files of a reader",
    "fleet plan --format": "goes on with a folder that the text has named",
}
"""Commands that are parsed alone: what begins or ends so."""
WITHOUT_NODE = ("completion", "diff", "doctor", "fleet", "rules", "rule", "about", "schema", "mcp",
                "replay")  # fmt: skip
"""Commands that take no --demo, or one without a name."""
CLUSTER = ("results", "results/", "checks", "DIR", "$DIR", "earlier")
"""Folders that many nodes have written into."""
_FENCED = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`(gputop(?: [^`\n]+)?)`")


def named(page: str) -> list[str]:
    """The commands on a page, in code and in blocks of shell."""
    text = (ROOT / page).read_text("utf-8")
    lines = [line.strip() for block in _FENCED.findall(text) for line in block.splitlines()]
    found = [*_INLINE.findall(text), *(line for line in lines if line.startswith("gputop"))]
    return sorted({command.replace("\\|", "|").partition("#")[0].strip() for command in found})


COMMANDS = sorted(
    {command for page in PAGES for command in named(page)}
    | {
        text.rpartition("| ")[2].partition(" > ")[0]
        for rows in EXAMPLES.values()
        for text, _ in rows
    }
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The files that a reader has, under the names that the pages give them."""
    folder = tmp_path_factory.mktemp("reader")
    found = {"nccl.log": str(LOG), "topo.xml": str(XML), "trace_0": str(DUMP)}
    found["4711"] = str(os.getpid())
    for name in WRITTEN:
        found[name] = str(folder / name)
        assert gputop_here("snapshot", "--demo", DEMO, "-o", found[name]).returncode == 0
    night = write_recording(folder / "night.gtrec", _evening())
    found |= {f"night.gtrec{at}": f"{night}{at}" for at in ("", "@+10s")}
    found["night.csv"] = str(folder / "night.csv")
    leaves = make_fleet(folder / "cluster")
    found |= dict.fromkeys(CLUSTER, str(folder / "cluster"))
    found["topology.conf"] = str(leaves)
    for name in ("check.xml", "report.html", "ticket.md", "round-1.sh", "pairs"):
        found[name] = str(folder / name)
    return found


def _evening() -> list[NodeSnapshot]:
    """Half a minute of readings around the time that the pages name."""
    begun = time.mktime((2026, 9, 21, 21, 13, 50, 0, 0, -1))
    return [
        msgspec.structs.replace(one, taken_at=begun + second)
        for second, one in enumerate(demo_readings(30, DEMO))
    ]


def test_the_pages_name_commands() -> None:
    assert len(COMMANDS) > 40
    assert {"gputop", "gputop topo", "gputop check --quick"} <= set(COMMANDS)


def told(command: str, files: dict[str, str]) -> list[str]:
    """The words of a command with the files that the reader has."""
    return [files.get(word, word) for word in shlex.split(command)[1:]]


def parts(command: str) -> list[tuple[str, str]]:
    """The subcommand with each of its options; the app alone is one too."""
    name, *rest = [*shlex.split(command)[1:], ""]
    return [(name, ""), *((name, word) for word in rest if word.startswith("-"))]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_documented_command_is_understood(command: str, files: dict[str, str]) -> None:
    words = told(command, files)
    if words[:1] != ["help"] and words[-1:] != ["--help"]:
        _parsed(words)


@pytest.mark.parametrize("command", covering(COMMANDS, parts))
def test_a_documented_command_works(command: str, files: dict[str, str]) -> None:
    words = told(command, files)
    if words[:1] == ["help"] or words[-1:] == ["--help"]:
        assert gputop_here(*words).stdout.startswith("Usage: gputop")
        return
    parsed = _parsed(list(words))
    if command == "gputop fleet plan":
        return
    if parsed is None or any(command[7:].startswith(name) for name in NOT_RUN) or words[-1] == "-":
        return
    if parsed == "check" and "-o" in words:
        return  # writes a file for each node, which stays
    if not {"--demo", "--from", "--list", "--pid"} & set(words):
        words += ["--demo", DEMO] if words[0] not in WITHOUT_NODE else []
    done = gputop_here(*words)
    assert done.returncode not in (USAGE, OWN_ERROR), done.stderr
    said = ("no round is left to run", "Nothing says what this hardware should give")
    made = "-o" in words or "--export" in words
    assert done.stdout or made or any(each in done.stderr for each in said)


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

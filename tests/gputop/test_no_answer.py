"""With --json stdout holds one document, also where a command cannot answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from gputop.commands.root import COMMANDS, root
from tests.support.command import gputop_here as gputop
from tests.support.places import RECORDINGS

NO_GPU = str(RECORDINGS / "pasted/epyc-lscpu.txt")


def json_commands() -> Iterator[tuple[str, frozenset[str]]]:
    """Every command with --json, and its options."""
    context = click.Context(root)
    found = {name: root.get_command(context, name) for name in COMMANDS}
    if isinstance(fleet := found["fleet"], click.Group):
        found |= {f"fleet {name}": fleet.get_command(context, name) for name in ("plan", "DIR")}
    for name, command in found.items():
        assert command is not None
        flags = frozenset(option for each in command.params for option in each.opts)
        if "--json" in flags:
            yield name.removesuffix(" DIR"), flags


@pytest.mark.parametrize("name", [name for name, _ in json_commands()])
def test_one_document_whatever_cannot_be_read(name: str, tmp_path: Path) -> None:
    (tmp_path / "odd.json").write_text('{"a": [1, 2')
    (tmp_path / "folder").mkdir()
    flags = dict(json_commands())[name]
    assert len(dict(json_commands())) >= 12
    unread = [tmp_path / "missing", tmp_path / "odd.json", tmp_path / "folder", Path(NO_GPU)]
    for path in unread:
        given = ["--from", str(path)] if "--from" in flags else [str(path)]
        done = gputop(*name.split(" "), *given, "--json")
        assert done.returncode in (0, 3, 64), (path, done.stderr)
        document = json.loads(done.stdout)
        assert document["schema"].startswith("gputop.")
        if document["schema"] == "gputop.no-answer/1":
            assert document["exit_code"] == done.returncode != 0
            assert document["why"] in done.stderr


def test_a_wrong_option_is_a_document_too() -> None:
    done = gputop("topo", "--json", "--nothing")
    assert done.returncode == 64
    assert json.loads(done.stdout)["exit_code"] == 64
    assert gputop("topo", "--nothing").stdout == ""

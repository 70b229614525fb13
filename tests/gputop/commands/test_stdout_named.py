"""`-` as the name of an output file is stdout, or is refused; no option makes a file of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from gputop.__main__ import run
from gputop.commands.fleet.made_up import make_fleet
from gputop.commands.net.command import command as net
from gputop.commands.root import root
from gputop.exits import USAGE
from tests.support.sessions import demo_readings, write_recording

DEMO = ["--demo", "sick-h100-8"]
CALLS = {
    ("snapshot", "--output"): [*DEMO],
    ("check", "--output"): ["--quick", *DEMO],
    ("check", "--html"): ["--quick", *DEMO],
    ("check", "--markdown"): ["--quick", *DEMO],
    ("check", "--junit"): ["--quick", *DEMO],
    ("metrics", "--textfile"): ["--once", *DEMO],
    ("replay", "--export"): ["night.gtrec"],
    ("fleet", "--junit"): ["cluster"],
    ("fleet plan", "--output"): ["cluster"],
}
"""Options that write a file, and what else their command needs; `probe net` has its own test."""
BESIDE = {"--html", "--markdown", "--junit", "--textfile", "--export"}
"""The answer is printed beside these files, or without the option."""
_WRITES = re.compile(r"(?i)^(?:also )?write\b")


def options_that_write() -> Iterator[tuple[str, str]]:
    """(command, its longest flag) of each option whose help begins by saying that it writes."""
    pending: list[tuple[str, click.Command]] = [("", root), ("probe net", net)]
    while pending:
        path, command = pending.pop()
        context = click.Context(command)
        if isinstance(command, click.Group):
            for name in ("DIR", *command.list_commands(context)):
                inner = command.get_command(context, name)
                pending += [(f"{path} {name}".strip(), inner)] if inner else []
        for option in command.params:
            if isinstance(option, click.Option) and _WRITES.match(option.help or ""):
                yield path.removesuffix(" DIR"), max(option.opts, key=len)


def test_every_option_that_writes_a_file_is_tried_here() -> None:
    assert set(options_that_write()) == {*CALLS, ("probe net", "--output")}


@pytest.mark.parametrize(("command", "flag"), CALLS)
def test_no_file_is_named_so(
    command: str,
    flag: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if "cluster" in CALLS[command, flag]:
        make_fleet(tmp_path / "cluster")
    if "night.gtrec" in CALLS[command, flag]:
        write_recording(tmp_path / "night.gtrec", demo_readings(2))
    monkeypatch.chdir(tmp_path)
    code = run([*command.split(), *CALLS[command, flag], flag, "-"])
    said = capsys.readouterr()
    assert not (tmp_path / "-").exists()
    if flag in BESIDE:
        assert code == USAGE
        assert said.out == ""
        assert said.err == f"gputop: {flag} -: stdout has the answer already; name a file\n"
    elif command == "fleet plan":
        assert said.out
        assert "wrote" not in said.err
    else:
        assert json.loads(said.out)["schema"].startswith("gputop.")


def test_the_result_of_a_network_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[object, object]] = []

    class Run:
        def __init__(self, *given: object, as_json: bool) -> None:
            made.append((given[4], as_json))

        def run(self) -> int:
            return 0

    monkeypatch.setattr("gputop.commands.net.command.NetRun", Run)
    asked = ["probe", "net", "--selftest", "--rank", "0", "--of", "2", "--meet", "m", "--redact"]
    assert run([*asked, "-o", "-"]) == 0
    assert made == [(None, True)]

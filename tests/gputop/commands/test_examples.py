"""The examples in every help; test_documented.py runs each as it stands there."""

from __future__ import annotations

from gputop.commands.examples import EXAMPLES, lines_of
from gputop.commands.root import COMMANDS
from tests.support.command import gputop_here


def test_every_command_has_some_in_its_help() -> None:
    assert set(EXAMPLES) >= {*COMMANDS, "gputop", "plan"}
    for name in (*COMMANDS, "fleet plan"):
        help_text = gputop_here(*name.split(), "--help").stdout
        rows = EXAMPLES[name.removeprefix("fleet ")]
        assert all(text in help_text and purpose in help_text for text, purpose in rows), name
    assert all(len(line) <= 78 for name in EXAMPLES for line in lines_of(name))


def test_no_help_names_a_type_of_the_library_and_sources_come_first() -> None:
    for name in (*COMMANDS, "fleet plan", "fleet x"):
        told = gputop_here(*name.split(), "--help").stdout
        assert not {"RANGE", "INTEGER", "FLOAT", "BOOLEAN"} & set(told.split()), name
        options = [line.split()[0] for line in told.splitlines() if line.startswith("  --")]
        if "--demo" in options:
            assert options.index("--demo") < 2, name

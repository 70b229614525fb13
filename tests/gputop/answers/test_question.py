"""A question is one file: its command, its JSON and its text follow from it."""

from __future__ import annotations

from typing import Annotated

import msgspec
import pytest
from click.testing import CliRunner

from gputop.answers import NAMES
from gputop.answers.question import Answer, Option, Question, Request
from gputop.commands.asking import command_of, load
from gputop.exits import Exit
from gputop.topology.model.page import Page, Text


class SumRequest(Request, frozen=True):
    """Add numbers."""

    numbers: Annotated[tuple[int, ...], Option("NUMBERS", "what is added")]
    times: Annotated[int | None, Option("--times", "how often", conflicts=("--once",))] = None
    once: Annotated[bool, Option("--once", "no more than once")] = False


class SumAnswer(Answer, frozen=True, kw_only=True, tag="gputop.sum/1"):
    """The sum."""

    total: int

    @property
    def exit_code(self) -> int:
        """1 where it is large."""
        return int(self.total > 100)


SUM = Question(
    name="sum",
    request=SumRequest,
    answer=lambda asked: SumAnswer(total=sum(asked.numbers) * (asked.times or 1)),
    page=lambda found: Page(title="sum", blocks=(Text(f"the sum is {found.total}"),)),
)


@pytest.mark.parametrize(
    ("words", "text", "code"),
    [(("1", "2"), "the sum is 3\n", 0), (("--times", "60", "2"), "the sum is 120\n", 1)],
)
def test_text_and_exit_code(words: tuple[str, ...], text: str, code: int) -> None:
    ran = CliRunner().invoke(command_of(SUM), words)
    assert (ran.output, ran.exit_code) == (text, code)


def test_the_encoding_is_the_document() -> None:
    ran = CliRunner().invoke(command_of(SUM), ["--json", "1", "2"])
    document = msgspec.json.decode(ran.output)
    assert list(document) == ["schema", "gputop", "source", "assumptions", "total"]
    assert document["schema"] == "gputop.sum/1"


def test_options_that_conflict_are_refused() -> None:
    ran = CliRunner().invoke(command_of(SUM), ["--times", "2", "--once", "1"])
    assert isinstance(ran.exception, Exit)
    assert "--times" in str(ran.exception)
    assert "--once" in str(ran.exception)


@pytest.mark.parametrize("name", NAMES)
def test_every_question_has_help_and_a_schema_of_its_own(name: str) -> None:
    command = load(name)
    assert command.name == name
    assert command.help
    assert all(parameter.name for parameter in command.params)

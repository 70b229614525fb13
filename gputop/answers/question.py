"""What a question is: its request, its answer and its page, and what all of them have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from gputop import __version__
from gputop.exits import ANSWERED
from gputop.reading import read_snapshot
from gputop.topology.model.page import Page
from gputop.topology.model.snapshot import NodeSnapshot


class Option(msgspec.Struct, frozen=True):
    """How a field of a request is given on the command line: `Annotated[bool, Option(...)]`.

    The type, the default and the name of the parameter are those of the field.
    """

    flag: str
    """"--quick"; without dashes it is an argument by its place."""
    help: str
    short: str = ""
    """"-v"."""
    metavar: str = ""
    completes: str = ""
    """A function of commands/completing.py that offers values."""
    choices: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    """Flags of options that cannot be given with it."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody asks. Each field is an option of the command."""


class Answer(msgspec.Struct, frozen=True, tag_field="schema"):
    """The answer to a question. Its encoding is the JSON document; the tag is the schema.

    Subclasses are `kw_only`, so that these fields stand first in the document.
    """

    gputop: str = __version__
    source: tuple[str, ...] = ("live",)
    assumptions: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """The exit code of the command: answered, unless the answer says more."""
        return ANSWERED


class NodeRequest(Request, frozen=True, kw_only=True):
    """A question about a node: its command has --from and --demo besides its own options."""

    sources: tuple[str, ...] = ()
    demo: str | None = None

    def snapshot(self) -> NodeSnapshot:
        """Read the node: files, a demo or this machine. Raises Exit."""
        return read_snapshot(self.sources, self.demo)


R = TypeVar("R", bound=Request)
A = TypeVar("A", bound=Answer)


class Question(msgspec.Struct, Generic[R, A], frozen=True, kw_only=True):
    """One question: the command, its JSON, its text and its screen follow from it."""

    name: str
    """The word on the command line."""
    request: type[R]
    """Its docstring is the help of the command."""
    answer: Callable[[R], A]
    """Work out the answer; raises GputopError."""
    page: Callable[[A], Page]
    """Explain an answer. Pure, without a width."""


AnyQuestion = Question[Any, Any]

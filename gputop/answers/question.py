"""What a question is: its request, its answer and its page, and what all of them have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Annotated, Any, ClassVar, Generic, NamedTuple, TypeVar, get_type_hints

import msgspec

from gputop import __version__
from gputop.exits import ANSWERED, USAGE, Exit
from gputop.reading import LIST_DEMOS, read_snapshot
from gputop.terminal.lines import print_json, warn
from gputop.terminal.output import print_lines
from gputop.terminal.size import terminal_width
from gputop.topology.model.page import Page
from gputop.topology.model.snapshot import NodeSnapshot, ProblemKind


class Option(msgspec.Struct, frozen=True):
    """How a field of a request is given on the command line: `Annotated[bool, Option(...)]`.

    The type, the default and the name of the parameter are those of the field.
    """

    flag: str
    """"--quick"; without dashes it is an argument by its place."""
    help: str
    metavar: str = ""
    completes: str = ""
    """A function of commands/completing.py that offers values."""
    short: str = ""
    """"-v"."""
    choices: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    """Flags of options that cannot be given with it."""
    least: float | None = None
    """The lowest number that is taken."""
    most: float | None = None
    bare: str = ""
    """What the flag without a value stands for; "" where it needs one."""


def gpus_option(what: str) -> Option:
    """The option --gpus; `what` is done to these GPUs only, as a verb."""
    text = f"{what} these GPUs only: driver indices (0,2 or 0-3), PCI addresses or UUIDs."
    return Option("--gpus", text, "LIST", "gpus")


DEMO = Option(
    "--demo",
    "Use a built-in demo node; without a name, list them.",
    "[SHAPE]",
    "demos",
    bare=LIST_DEMOS,
)
FORCE = Option("--force", "Measure busy GPUs too.")
PYTHON = Option("--python", "Python interpreter whose torch does the measuring.", "PATH", "files")


class Clash(NamedTuple):
    """Options that cannot be given together, and the sentence that says so."""

    flags: tuple[str, ...]
    others: tuple[str, ...]
    why: str
    needed: bool = False
    """Whether one of the others has to be given, instead of none."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody asks. Each field is an option of the command."""

    clashes: ClassVar[tuple[Clash, ...]] = ()
    """For options whose conflict needs a sentence of its own."""
    as_json: Annotated[bool, Option("--json", "Print one JSON document on stdout.")] = False


class Reply(msgspec.Struct, frozen=True, tag_field="schema"):
    """The answer to a question. Its fields are the JSON document; the tag is the schema.

    Subclasses are `kw_only`, so that these fields stand first in the document.
    """

    hidden: ClassVar[tuple[str, ...]] = ()
    """Fields that are no part of the document: only its page and its files are made of them."""
    gputop: str = __version__
    source: tuple[str, ...] = ("live",)

    @property
    def exit_code(self) -> int:
        """The exit code of the command: answered, unless the answer says more."""
        return ANSWERED

    @property
    def remarks(self) -> tuple[str, ...]:
        """Sentences for stderr, before the answer."""
        return ()

    @property
    def trouble(self) -> str:
        """Why the answer is not whole: the last line on stderr; "" where it is."""
        return ""

    def document(self) -> dict[str, Any]:
        """The JSON document: its fields by the names that they have there."""
        names = zip(self.__struct_encode_fields__, self.__struct_fields__, strict=True)
        shown = {key: getattr(self, name) for key, name in names if name not in self.hidden}
        known = {key: value for key, value in shown.items() if value is not msgspec.UNSET}
        return {"schema": self.__struct_config__.tag, **known}


class Answer(Reply, frozen=True):
    """An answer whose assumptions stand at the head of its document, and on stderr."""

    assumptions: tuple[str, ...] = ()

    @property
    def remarks(self) -> tuple[str, ...]:
        """What was assumed."""
        return self.assumptions


def option_of(request: type[Request], name: str) -> Option | None:
    """How the command takes a field; None for a field that it does not have."""
    hint = get_type_hints(request, include_extras=True)[name]
    found = (one for one in getattr(hint, "__metadata__", ()) if isinstance(one, Option))
    return next(found, None)


def refuse_odd(request: Request) -> None:
    """Refuse a number out of range and a word that is no choice. Raises Exit."""
    for name in request.__struct_fields__:
        option, value = option_of(type(request), name), getattr(request, name)
        if option is None or value is None:
            continue
        if option.choices and value not in option.choices:
            raise Exit(f"{name}: {str(value)[:40]!r} is none of {', '.join(option.choices)}", USAGE)
        least, most = option.least, option.most
        if (least is not None and value < least) or (most is not None and value > most):
            raise Exit(f"{name}: {value} is not from {least or 0:g} to {most or 0:,.0f}", USAGE)


class NodeRequest(Request, frozen=True, kw_only=True):
    """A question about a node: its command has --from and --demo besides its own options."""

    sources: tuple[str, ...] = ()
    demo: str | None = None
    given: NodeSnapshot | None = None
    """A node that is read already: the one that the app shows."""

    def snapshot(self, *, absences: bool = True) -> NodeSnapshot:
        """The node in hand, else files, a demo or this machine, with what could not be read said.

        `absences`: whether it is said that drivers are not there. Raises Exit.
        """
        if self.given is not None:
            return self.given
        found = read_snapshot(self.sources, self.demo)
        for line in problem_lines(found, absences=absences):
            warn(line)
        return found


def problem_lines(snapshot: NodeSnapshot, *, absences: bool = True) -> Iterator[str]:
    """What could not be read; a reason of several sources stands once."""
    by_text: dict[str, list[str]] = {}
    for problem in snapshot.problems:
        if absences or problem.kind != ProblemKind.ABSENT:
            by_text.setdefault(problem.text, []).append(problem.source)
    for text, names in by_text.items():
        yield f"{', '.join(names)}: {text}"


R = TypeVar("R", bound=Request)
A = TypeVar("A", bound=Reply)


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
    width: Callable[[], int | None] = terminal_width
    """Columns of its text; None for lines as long as they are."""
    carry_out: Callable[[R], int] | None = None
    """Ask and put out the answer, in place of `ask`; gives the exit code."""
    listed: bool = True
    """Whether the app lists the page of a question about a node; False where a screen of its own
    shows the same."""

    @property
    def is_listed(self) -> bool:
        """Whether the app has a screen of it: it is about a node and asks for nothing more."""
        fields = msgspec.structs.fields(self.request)
        about_a_node = self.listed and issubclass(self.request, NodeRequest)
        return about_a_node and not any(field.required for field in fields)

    def ask(self, request: R) -> int:
        """Work out the answer and print it, as JSON or as text; gives the exit code."""
        if self.carry_out is not None:
            return self.carry_out(request)
        found = self.answer(request)
        with suppress(BrokenPipeError):
            self.show(found, as_json=request.as_json)
        if found.trouble:
            raise Exit(found.trouble, found.exit_code)
        return found.exit_code

    def show(self, found: A, *, as_json: bool) -> None:
        """Print an answer; what there is to remark goes to stderr."""
        for sentence in found.remarks:
            warn(sentence)
        if as_json:
            print_json(found.document())
            return
        from gputop.printing.render import printed  # JSON does without

        print_lines(printed(self.page(found).blocks, self.width()))


AnyQuestion = Question[Any, Any]

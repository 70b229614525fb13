"""A question as a command: options, help, conflicts and completion come from its request."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module

import click
import msgspec

from gputop.answers.question import AnyQuestion, NodeRequest, Option, Request
from gputop.commands.options import completing, json_option, source_options
from gputop.exits import USAGE, Exit
from gputop.printing.render import texts
from gputop.terminal.lines import print_json, warn
from gputop.terminal.size import terminal_width


def command_of(question: AnyQuestion) -> click.Command:
    """The command that asks a question and prints the answer."""
    options = dict(_options(question.request))

    def ask(as_json: bool, **given: object) -> None:
        _refuse_conflicts(options, given)
        answer = question.answer(question.request(**given))
        with suppress(BrokenPipeError):
            if as_json:
                print_json(answer)
            else:
                for sentence in answer.assumptions:
                    warn(sentence)
                for line in texts(question.page(answer).blocks, terminal_width()):
                    click.echo(line)
        click.get_current_context().exit(answer.exit_code)

    command = json_option(ask)
    defaults = {field.name: field for field in msgspec.structs.fields(question.request)}
    for name, (kind, option) in reversed(options.items()):
        command = _parameter(name, kind, option, defaults[name])(command)
    if issubclass(question.request, NodeRequest):
        command = source_options(command)
    return click.command(question.name, help=inspect.getdoc(question.request))(command)


def load(name: str) -> click.Command:
    """The command of a question by the name of its module."""
    question: AnyQuestion = import_module(f"gputop.answers.{name}").QUESTION
    return command_of(question)


def _options(request: type[Request]) -> Iterator[tuple[str, tuple[type, Option]]]:
    hints = typing.get_type_hints(request, include_extras=True)
    shared = NodeRequest.__struct_fields__ if issubclass(request, NodeRequest) else ()
    for name in request.__struct_fields__:
        if name in shared:
            continue
        kind, option = typing.get_args(hints[name])
        yield name, (kind, option)


def _parameter(
    name: str, kind: type, option: Option, field: msgspec.structs.FieldInfo
) -> typing.Callable[[typing.Any], typing.Any]:
    several = typing.get_origin(kind) is tuple
    shared: dict[str, typing.Any] = {"metavar": option.metavar or None}
    if option.completes:
        shared["shell_complete"] = completing(option.completes)
    if option.choices:
        shared["type"] = click.Choice(option.choices)
    elif kind is not bool:
        shared["type"] = (typing.get_args(kind) or (kind,))[0] if several else _plain(kind)
    if not option.flag.startswith("-"):
        return click.argument(name, required=field.required, nargs=-1 if several else 1, **shared)
    flags = [option.flag, *([option.short] if option.short else []), name]
    if kind is bool:
        return click.option(*flags, is_flag=True, help=option.help)
    return click.option(
        *flags,
        multiple=several,
        default=() if several else field.default,
        help=option.help,
        **shared,
    )


def _plain(kind: type) -> type:
    """The type of an option that may be missing: `int` of `int | None`."""
    members = [member for member in typing.get_args(kind) if member is not type(None)]
    return members[0] if members else kind


def _refuse_conflicts(options: dict[str, tuple[type, Option]], given: dict[str, object]) -> None:
    used = {option.flag for name, (_, option) in options.items() if given[name]}
    for _, option in options.values():
        both = used.intersection(option.conflicts) if option.flag in used else None
        if both:
            raise Exit(f"use {option.flag} or {sorted(both)[0]}, not both", USAGE)

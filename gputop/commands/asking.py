"""A question as a command: options, help, conflicts and completion come from its request."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterator
from importlib import import_module

import click
import msgspec

from gputop.answers.question import AnyQuestion, NodeRequest, Option, Request
from gputop.commands.examples import WithExamples
from gputop.commands.options import Seconds, completing, source_options
from gputop.exits import USAGE, Exit

_SOURCES = {"from": "sources", "demo": "demo"}
"""Options of every question about a node -> its fields of the request."""
_RANGES: dict[type, typing.Callable[..., click.ParamType[typing.Any]]] = {
    int: click.IntRange,
    float: Seconds,
}


def command_of(question: AnyQuestion) -> click.Command:
    """The command that asks a question and prints the answer."""
    options = dict(_options(question.request))

    def command(**given: object) -> None:
        _refuse_conflicts(question.request, options, given)
        click.get_current_context().exit(question.ask(question.request(**given)))

    defaults = {field.name: field for field in msgspec.structs.fields(question.request)}
    for name, (kind, option) in reversed(options.items()):
        command = _parameter(name, kind, option, defaults[name])(command)
    if issubclass(question.request, NodeRequest):
        command = source_options(command)
    told = inspect.getdoc(question.request)
    return click.command(question.name, cls=WithExamples, help=told)(command)


def load(name: str) -> click.Command:
    """The command of a question by the name of its module."""
    question: AnyQuestion = import_module(f"gputop.answers.{name}").QUESTION
    return command_of(question)


def _options(request: type[Request]) -> Iterator[tuple[str, tuple[type, Option]]]:
    hints = typing.get_type_hints(request, include_extras=True)
    for name in request.__struct_fields__:
        if typing.get_origin(hints[name]) is typing.Annotated:
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
        plain: typing.Any = (typing.get_args(kind) or (kind,))[0] if several else _plain(kind)
        if option.least is not None:
            plain = _RANGES[plain](option.least, option.most)
        shared["type"] = plain
    if not option.flag.startswith("-"):
        return click.argument(name, required=field.required, nargs=-1 if several else 1, **shared)
    if option.bare:
        shared |= {"is_flag": False, "flag_value": option.bare}
    flags = [option.flag, *([option.short] if option.short else []), name]
    if kind is bool:
        return click.option(*flags, is_flag=True, help=option.help)
    return click.option(
        *flags,
        multiple=several,
        default=() if several else field.default,
        show_default=option.least is not None and field.default is not None,
        help=option.help,
        **shared,
    )


def _plain(kind: type) -> type:
    """The type of an option that may be missing: `int` of `int | None`."""
    members = [member for member in typing.get_args(kind) if member is not type(None)]
    return members[0] if members else kind


def _refuse_conflicts(
    request: type[Request], options: dict[str, tuple[type, Option]], given: dict[str, object]
) -> None:
    used = {option.flag for name, (_, option) in options.items() if given[name]}
    used |= {f"--{word}" for word, name in _SOURCES.items() if given.get(name)}
    for clash in request.clashes:
        if used.intersection(clash.flags) and clash.needed != bool(used & set(clash.others)):
            raise Exit(clash.why, USAGE)
    for _, option in options.values():
        both = used.intersection(option.conflicts) if option.flag in used else None
        if both:
            raise Exit(f"use {option.flag} or {sorted(both)[0]}, not both", USAGE)

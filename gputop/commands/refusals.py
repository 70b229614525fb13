"""What a command line lacks or has too much, in one line of our own instead of Click's four."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import click

from gputop.terminal.clean import clean
from gputop.terminal.nearest import instead, meant

_REFUSED = re.compile(r"'?(?P<value>.*?)'? is not .*", re.DOTALL)
_EXTRA = re.compile(r"\((?P<words>.*)\)", re.DOTALL)


def refusal(error: click.ClickException) -> str:
    """One sentence: what is wrong, and what may have been meant, or where that stands."""
    context = getattr(error, "ctx", None)
    for kind, say in _SAID.items():
        if isinstance(error, kind) and (text := say(error, context)):
            return text
    return clean(error.format_message(), 300).rstrip(".")


def _name(context: click.Context | None) -> str:
    return "gputop" if context is None else context.command_path


def _asked(context: click.Context | None) -> str:
    return _name(context).removeprefix("gputop ")


def _where(context: click.Context | None) -> str:
    return f"; `{_name(context)} --help` has examples"


def _no_option(error: click.NoSuchOption, context: click.Context | None) -> str:
    hint = meant(error.possibilities or ()) or f"; `{_name(context)} --help` lists them"
    return f"no option {clean(error.option_name, 60)}{hint}"


def _no_value(error: click.BadOptionUsage, context: click.Context | None) -> str:
    named = {option: each for each in _parameters(context) for option in each.opts}
    wanted = named.get(error.option_name)
    if getattr(wanted, "is_flag", False):
        return f"{error.option_name} takes no value"
    value = getattr(wanted, "metavar", None)
    return f"{error.option_name} needs a value{f': {value}' if value else ''}"


def _missing(error: click.MissingParameter, context: click.Context | None) -> str:
    lacking = error.param.make_metavar(context) if error.param and context else "an argument"
    return f"{_asked(context)} needs {lacking}{_where(context)}"


def _extra(error: click.UsageError, context: click.Context | None) -> str:
    extra = _EXTRA.search(error.format_message())
    if extra is None or context is None:
        return ""
    words = extra["words"]
    hint = _meant(words, context) or _where(context)
    return f"{_asked(context)} takes no {clean(words, 60)!r}{hint}"


def _parameters(context: click.Context | None) -> list[click.Parameter]:
    return [] if context is None else context.command.params


def _bad_value(error: click.BadParameter, context: click.Context | None) -> str:
    parameter, said = error.param, error.message
    if parameter is None:
        return ""
    is_option = parameter.param_type_name == "option"
    option = parameter.opts[0] if is_option else parameter.human_readable_name
    found = _REFUSED.fullmatch(said)
    if found is None:
        return f"{option}: {clean(said, 300).rstrip('.')}"
    return f"{option}{_expected(parameter.type, clean(found['value'], 60))}"


def _expected(kind: click.ParamType[Any], value: str) -> str:
    """What stands behind the name of a parameter whose value is none of its kind."""
    if isinstance(kind, click.Choice):
        return f": no {value!r}{instead(value, map(str, kind.choices))}"
    if not isinstance(kind, (click.IntRange, click.FloatRange)):
        return f": {value!r} is no {kind.name}"
    number = "a whole number" if isinstance(kind, click.IntRange) else "a number"
    form = ",d" if isinstance(kind, click.IntRange) else "g"
    least = "" if kind.min is None else f" from {kind.min:{form}}"
    most = "" if kind.max is None else f" to {kind.max:{form}}"
    return f" takes {number}{least}{most}, not {value}"


def _meant(words: str, context: click.Context) -> str:
    """An option, or one of its values, that stands there without its dashes."""
    word = words.split(" ")[0]
    for parameter in _parameters(context):
        option = max(parameter.opts, key=len)
        if option == f"--{word}":
            return meant([option])
        if isinstance(parameter.type, click.Choice) and word in parameter.type.choices:
            return meant([f"{option} {word}"])
    return ""


_SAID: dict[type[click.ClickException], Callable[[Any, click.Context | None], str]] = {
    click.NoSuchOption: _no_option,
    click.BadOptionUsage: _no_value,
    click.MissingParameter: _missing,
    click.BadParameter: _bad_value,
    click.UsageError: _extra,
}
"""Kind of error, the special ones first -> the sentence; "" where it has none."""

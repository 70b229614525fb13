"""Whole answers as text, for tests that compare all of an answer with what it was.

Where an answer changes on purpose, `pytest --snapshot-update` writes the new one; the difference of
the file then shows all that changed.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import pkgutil
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from enum import EnumMeta
from types import FunctionType, GeneratorType, ModuleType, NoneType
from typing import Any

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from gputop.topology.model.snapshot import NodeSnapshot
from tests.support.places import ROOT

EMPTY: tuple[object, ...] = (None, "", False, [], {})


def whole(value: object, *, without: Collection[str] = (), strict: bool = False) -> str:
    """An answer line by line, without what is empty and without the named fields.

    Raises TypeError where `strict` is set and something in it is no plain data.
    """
    plain = msgspec.to_builtins(
        value, str_keys=True, enc_hook=None if strict else str, order="deterministic"
    )
    return "\n".join(_lines(plain, "", frozenset(without)))


def changes(before: str, after: str) -> str:
    """What one text has and the other has not, line by line."""
    old, new = before.splitlines(), after.splitlines()
    gone, come = set(old) - set(new), set(new) - set(old)
    return "\n".join(
        [f"- {line}" for line in old if line in gone]
        + [f"+ {line}" for line in new if line in come]
    )


def _lines(value: Any, path: str, without: frozenset[str]) -> Iterator[str]:
    if isinstance(value, dict):
        kept = {
            name: member
            for name, member in value.items()
            if name not in without and member not in EMPTY
        }
        if path and not any(map(_is_nested, kept.values())):
            yield f"{path}: {', '.join(f'{name}={_leaf(one)}' for name, one in kept.items())}"
            return
        for name, member in kept.items():
            yield from _lines(member, f"{path}.{name}".lstrip("."), without)
    elif _is_nested(value):
        for number, member in enumerate(value):
            yield from _lines(member, f"{path}[{number}]", without)
    else:
        yield f"{path}: {_leaf(value)}"


def _is_nested(value: Any) -> bool:
    """Whether it holds dictionaries."""
    if isinstance(value, (list, tuple)):
        return any(map(_is_nested, value))
    return isinstance(value, dict)


def _leaf(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{' '.join(map(_leaf, value))}]"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


GROWING = ("examined", "unexamined", "elsewhere", "unread", "elapsed_seconds")
"""What is another with each rule that somebody adds, or each time."""
LONGEST = 600
"""Characters of an answer that are kept; of the rest only whether it is the same."""
LONGEST_NAME = 200
MOST = 40
"""Answers that are kept of one test."""
_UNSTEADY = re.compile(
    r"[0-9](?:(?<=\b1)(?:[6-9]\d{8}(?:\.\d+)?(?:e\+?\d+)?|\.[6-9]\d*e\+09)"
    r"|(?<=pid=\d)\d*|(?<=answered for \d)\d*)"
)
"""Moments of the real clock. It begins with a digit: what may begin anywhere takes six times as
long, and every answer is searched."""
_UNPRINTABLE = re.compile(r"[^\x20-\x7e\xa0-\u2fff\n]")


def digest(text: str) -> str:
    """A few letters that are others where the text is another one."""
    return hashlib.sha1(text.encode(errors="replace")).hexdigest()[:12]


class Heard:
    """Listens to what the functions that a test module has by name answer to its tests."""

    def __init__(self, hidden: str) -> None:
        """`hidden`: the folder of tests, in which each has another one each time.

        Where this checkout lies is no answer either.
        """
        self.said: list[str] = []
        self._hidden = re.compile(
            rf"{re.escape(hidden)}(?:/\w+?\d+\b)?|{re.escape(str(ROOT))}(?=/)"
        )
        self._inside = False
        self._plain: dict[str, Any] = {}
        self._listened: dict[str, Any] = {}

    def listen(self, module: ModuleType, names: Iterable[str]) -> None:
        """Keep the answers of what the module has by these names, where a test itself asks."""
        self._plain = {name: vars(module)[name] for name in names}
        self._listened = {
            name: self._listening(module, value) for name, value in self._plain.items()
        }
        vars(module).update(self._listened)

    def leave(self, module: ModuleType) -> None:
        """Listen no more."""
        self._exchange(module, self._listened, self._plain)

    def _exchange(self, module: ModuleType, old: dict[str, Any], new: dict[str, Any]) -> None:
        """Put the new functions where the old ones are: what a test put there itself stays."""
        have = vars(module)
        have.update({name: new[name] for name, value in old.items() if have.get(name) is value})

    def _listening(self, module: ModuleType, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, whose answers are kept where the test itself asked."""

        @functools.wraps(function)
        def asked(*given: Any, **named: Any) -> Any:
            if self._inside:
                return function(*given, **named)
            self._inside = True
            # A function that calls itself is not slower for being listened to.
            self._exchange(module, self._listened, self._plain)
            try:
                answer = function(*given, **named)
                if isinstance(answer, GeneratorType):
                    answer = list(answer)
            except Exception as error:
                ours = type(error).__module__.startswith("gputop")  # other texts are of a version
                self._keep(function, f"{type(error).__name__}: {error}" if ours else "raises")
                raise
            finally:
                self._exchange(module, self._plain, self._listened)
                self._inside = False
            self._keep(function, answer)
            return answer

        return asked

    def _keep(self, function: Callable[..., Any], answer: object) -> None:
        if len(self.said) >= MOST or isinstance(answer, (NodeSnapshot, bytes, NoneType)):
            return
        if not _ends(answer, [10_000]):
            return
        try:
            text = (
                answer if isinstance(answer, str) else whole(answer, strict=True, without=GROWING)
            )
        except TypeError:
            return  # no data
        text = _UNSTEADY.sub("…", _UNPRINTABLE.sub(_escaped, self._hidden.sub("…", text)))
        if len(text) > LONGEST:
            text = f"{text[:LONGEST]}… ({digest(text)})"
        said = (
            f"{function.__name__}: {text}" if "\n" not in text else f"{function.__name__}:\n{text}"
        )
        if said not in self.said:
            self.said.append(said)


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def _ends(value: object, left: list[int]) -> bool:
    """Whether an answer is small, and not one that holds itself many times."""
    left[0] -= 1
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return left[0] > 0 and all(_ends(member, left) for member in value)
    return left[0] > 0


TABLES = (
    ("gputop.topology.diagnosis.engine", "load"),
    ("gputop.topology.hardware.specs", "skus"),
    ("gputop.measuring.quantities", "specs"),
)
"""Functions that give whole tables, kept together with what plugins add."""


def is_heard(name: str, value: object, module: ModuleType) -> bool:
    """Whether a test module asks the product by this function, or by one of its own."""
    if name.startswith("test_") or not callable(value) or isinstance(value, type):
        return False
    own = getattr(value, "__module__", None) == module.__name__
    if hasattr(value, "cache_clear") or (getattr(value, "__module__", ""), name) in TABLES:
        return own  # else the first test alone would hear what it asks
    return isinstance(value, FunctionType) and (own or value.__module__.startswith("gputop."))


@pytest.fixture(autouse=True)
def whole_answers(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    kept_answers: SnapshotAssertion,
) -> Iterator[None]:
    """Compare all that a test is answered with what it was, whatever the test itself looks at.

    Not where inputs are made up, nor what a module names under UNHEARD: functions whose answers
    are others each time, "*" for all; nor where a test reads what may lie beside the checkout.
    """
    named = len(request.node.name) < LONGEST_NAME
    unsteady: tuple[str, ...] = getattr(request.module, "UNHEARD", ())
    elsewhere = request.node.get_closest_marker("beside") is not None
    if hasattr(request.function, "hypothesis") or "*" in unsteady or not named or elsewhere:
        yield
        return
    heard = Heard(str(tmp_path_factory.getbasetemp()))
    heard.listen(
        request.module,
        [
            name
            for name, value in vars(request.module).items()
            if is_heard(name, value, request.module) and name not in unsteady
        ],
    )
    yield
    heard.leave(request.module)
    if "\n".join(heard.said) != kept_answers(name="answers"):
        pytest.fail("\n".join(kept_answers(name="answers").get_assert_diff()), pytrace=False)


def constants(package: ModuleType, without: Collection[str] = ()) -> str:
    """The numbers, words and defaults that the modules of a package decide by, one a line.

    `without`: names of what the machine says, or what has no order.
    """
    found = []
    for module in modules_of(package):
        place = module.__name__.removeprefix(package.__name__).lstrip(".")
        for name, value in sorted(vars(module).items()):
            if isinstance(value, type) or callable(value):
                if getattr(value, "__module__", "") == module.__name__:
                    found += [f"{place}:{name}.{line}" for line in _defaults(value)]
            elif name.isupper() and name not in without:
                found += [f"{place}:{name} = {text}" for text in (_plain(value),) if text]
    return "\n".join(found)


def modules_of(package: ModuleType) -> Iterator[ModuleType]:
    """The modules of a package, imported."""
    for one in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        yield importlib.import_module(one.name)


def _defaults(value: Any) -> Iterator[str]:
    """What a class or function takes where nothing is given."""
    members = sorted(vars(value).items()) if isinstance(value, type) else []
    if isinstance(value, type) and issubclass(value, msgspec.Struct):
        given = value.__struct_defaults__
        members += zip(value.__struct_fields__[-len(given) :] if given else (), given, strict=True)
    for name, member in [("", value), *members]:
        if name.startswith("__"):
            continue
        if isinstance(member, FunctionType):
            given = (*(member.__defaults__ or ()), *(member.__kwdefaults__ or {}).items())
            yield from (f"{name}() takes {text}" for text in (_plain(given),) if given and text)
        elif (
            isinstance(value, type) and not isinstance(value, EnumMeta) and (text := _plain(member))
        ):
            yield f"{name} = {text}"


def _plain(value: object) -> str:
    """A constant that is plain data as text; "" where it is none."""
    try:
        text = " ".join(whole({"": value}, strict=True).split())
    except TypeError:
        return ""
    return text if len(text) < LONGEST else f"{text[:80]}… ({digest(text)})"

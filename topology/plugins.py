"""Plugins: what other distributions add under entry points such as `gputop.rules`.

Nothing is looked up before a registry asks for it, and in the app not before its first row. A
plugin that is broken, slow or a double is left out with one sentence; nothing else is lost. Nothing
is loaded from the current folder, from a relative entry of PYTHONPATH or from a folder into which
everybody may write.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from .model.characters import printable
from .model.errors import GputopError
from .model.severity import Word

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

LOAD_SECONDS = 2.0
"""How long the imports of all plugins of a group may take, and one question to a plugin."""
LONGEST = 200
"""Characters of what a plugin says of itself or of its error."""
_OWN = ("site-packages", "dist-packages")
"""Where an installation of Python has its packages: trusted, even by whoever stands in it."""
RECORDS = (".dist-info", ".egg-info")
"""Endings of the folders that describe what is installed."""
T = TypeVar("T")


class PluginGroup(Word):
    """What a plugin adds: the entry points `gputop.NAME`."""

    RULES = "rules"
    FORMATS = "formats"
    SOURCES = "sources"
    PROBES = "probes"
    ANSWERS = "answers"
    SCREENS = "screens"
    THEMES = "themes"
    FIGURES = "figures"


class Plugin(NamedTuple):
    """One entry point, in text that a terminal may show."""

    group: PluginGroup
    name: str
    distribution: str
    version: str

    def __str__(self) -> str:
        """Whose it is: "rules plugin example of gputop-example 1.0"."""
        return f"{self.group} plugin {self.name} of {self.distribution} {self.version}"


class DamagedRecord(NamedTuple):
    """Entry points that cannot be read, in place of one of them."""

    why: str


class PluginRefused(GputopError):  # noqa: N818 - an answer, no error of ours
    """What a plugin adds cannot be used; the text says why."""


class Plugins:
    """All plugins of this process; any thread may ask."""

    def __init__(self, folders: Callable[[], Iterable[str]] | None = None) -> None:
        """`folders`: where distributions lie, for tests."""
        self._folders = folders or trusted_folders
        self._lock = threading.RLock()
        self.held = False
        """Whether nothing is looked up yet."""
        self._asking: int | None = None
        self._found: list[tuple[Plugin, EntryPoint | DamagedRecord]] | None = None
        self._accepted: dict[PluginGroup, tuple[Any, ...]] = {}
        self._troubles: dict[Plugin, str] = {}
        self._hears: Callable[[str], object] | None = None

    def hold(self) -> None:
        """Look nothing up until `release`: the first row of the app must not pay for it."""
        self.held, self._asking = True, None

    def release(self, ask: Callable[[], object] = tuple) -> None:
        """Look up what `ask` asks for, in this thread; no other one waits for it meanwhile."""
        self._asking = threading.get_ident()
        try:
            ask()
        finally:
            self.held = False

    def hear(self, hears: Callable[[str], object]) -> None:
        """Call this with each sentence about a plugin that cannot be used, earlier ones too."""
        with self._lock:
            said = [] if self._hears is hears else list(self._troubles.items())
            self._hears = hears
        for plugin, why in said:
            hears(f"{plugin}: {why}")

    def refuse(self, plugin: Plugin, why: object) -> str:
        """Keep and say why a plugin is left out, once for each plugin; gives it as text."""
        foreign_error = isinstance(why, BaseException) and not isinstance(why, PluginRefused)
        text = _said_by(why) if foreign_error else str(why)
        text = printable(" ".join(text.split()))[:LONGEST]
        with self._lock:
            known = self._troubles.setdefault(plugin, text)
            hears = self._hears if known is text else None
        if hears is not None:
            hears(f"{plugin}: {text}")
        return text

    def refused(self, plugin: Plugin) -> str:
        """Why a plugin is left out; "" where it is not."""
        return self._troubles.get(plugin, "")

    def of(self, group: PluginGroup, accept: Callable[[Plugin, Any], Iterable[T]]) -> tuple[T, ...]:
        """What the plugins of a group add, each made of what its entry point names by `accept`."""
        if self.held and threading.get_ident() != self._asking:
            return ()
        if getattr(_foreign, "runs", False):
            return self._accepted.get(group, ())  # its caller holds the lock until it is done
        with self._lock:
            if group not in self._accepted:
                self._accepted[group] = ()  # for whoever asks meanwhile, in this thread
                made: list[T] = []
                for plugin, thing in self._loaded(group):
                    try:
                        made += accept(plugin, thing)
                    except Exception as error:  # noqa: BLE001 - a border: a plugin is foreign code
                        self.refuse(plugin, error)
                self._accepted[group] = tuple(made)
            return self._accepted[group]

    def try_out(self, group: PluginGroup) -> None:
        """Import the plugins of a group, to know which of them fail."""
        with self._lock:
            if group not in self._accepted:
                list(self._loaded(group))

    def listed(self) -> tuple[tuple[Plugin, str], ...]:
        """Every plugin with why it is left out, "" where it is not; those asked for are loaded."""
        with self._lock:
            return tuple((plugin, self.refused(plugin)) for plugin, _ in self._entries())

    @staticmethod
    def asked(question: Callable[[], T], seconds: float = LOAD_SECONDS) -> T:
        """The answer of foreign code. Raises what it raises, and PluginRefused if it is late."""
        (answer,) = _all_within([question], seconds)
        if answer is None:
            raise PluginRefused(f"no answer within {seconds:g} s")
        if isinstance(answer[1], Exception):
            raise answer[1]
        if answer[1] is not None:
            raise PluginRefused(_said_by(answer[1]))  # of its thread, and no word to end ours
        made: T = answer[0]
        return made

    def _loaded(self, group: PluginGroup) -> Iterator[tuple[Plugin, Any]]:
        mine: list[tuple[Plugin, EntryPoint | DamagedRecord]] = []
        for plugin, entry in self._entries():
            if plugin.group is not group:
                continue
            first = next((one for one, _ in mine if one.name == plugin.name), None)
            if first is None:
                mine.append((plugin, entry))
            else:
                self.refuse(plugin, f"the name is taken: {first.distribution} has it, which stays")
        answers = _all_within([partial(_load, entry) for _, entry in mine], LOAD_SECONDS)
        for (plugin, _), answer in zip(mine, answers, strict=True):
            if answer is None:
                self.refuse(plugin, f"not imported within {LOAD_SECONDS:g} s")
            elif answer[1] is not None:
                self.refuse(plugin, answer[1])
            else:
                yield plugin, answer[0]

    def _entries(self) -> list[tuple[Plugin, EntryPoint | DamagedRecord]]:
        if self._found is None:
            self._found = list(_entries_in(self._folders()))
        return self._found


_foreign = threading.local()
"""Whether this thread runs code of a plugin."""
_LEAVING = ("_exit", "execv", "execve", "abort", "kill")
"""Functions of `os` that end the process, the others of exec* by way of these."""
Answered = tuple[Any, "BaseException | None"]


@lru_cache(1)
def _stay() -> None:
    """Let no plugin end the process: an exit with 0 would read as an all-clear.

    A process that a plugin forks may end as it likes. What calls C itself cannot be held.
    """
    here = os.getpid()

    def held(name: str, leave: Callable[..., Any]) -> Callable[..., Any]:
        def stays(*given: Any) -> Any:
            other = name == "kill" and (given[:1] != (here,) or not given[1:] or not given[1])
            if getattr(_foreign, "runs", False) and os.getpid() == here and not other:
                raise PluginRefused(f"it called os.{name}, which would have ended gputop")
            return leave(*given)

        return stays

    for name in _LEAVING:
        setattr(os, name, held(name, getattr(os, name)))


@contextmanager
def foreign() -> Iterator[None]:
    """Run code of a plugin in this thread: it can neither ask for plugins nor end the process."""
    _stay()
    before = getattr(_foreign, "runs", False)
    _foreign.runs = True
    try:
        yield
    except SystemExit as end:
        raise PluginRefused(_said_by(end)) from end
    finally:
        _foreign.runs = before


def _said_by(error: object) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": ")


def _all_within(questions: list[Callable[[], Any]], seconds: float) -> list[Answered | None]:
    """What each gives or raises, asked at once in threads of their own; None of those too late."""
    answers: list[Answered | None] = [None] * len(questions)

    def ask(place: int) -> None:
        try:
            with foreign():
                answers[place] = questions[place](), None
        except BaseException as error:  # noqa: BLE001 - SystemExit of a plugin too
            answers[place] = None, error

    threads = [
        threading.Thread(target=ask, args=(place,), name=f"plugin {place}", daemon=True)
        for place in range(len(questions))
    ]
    with suppress(RuntimeError):  # a limit of threads: those that did not start are late
        for thread in threads:
            thread.start()
    end = time.monotonic() + seconds
    for thread in threads:
        if thread.ident is not None:
            thread.join(max(0.0, end - time.monotonic()))
    return list(answers)


def trusted_folders() -> list[str]:
    """The entries of sys.path from which plugins may come."""
    return [folder for folder in sys.path if folder and not _untrusted(folder)]


def _untrusted(folder: str) -> bool:
    """Whether it is the current folder, was given as a relative one, or is open to everybody."""
    here = os.path.realpath(folder)
    own = os.path.basename(here) in _OWN and here.startswith(
        (os.path.realpath(sys.prefix) + os.sep, os.path.realpath(sys.base_prefix) + os.sep)
    )
    if not os.path.isabs(folder):
        return True
    try:
        if os.stat(here).st_mode & 0o002:
            return True
        current = os.path.realpath(os.getcwd())
    except OSError:
        return True
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    relative = {os.path.realpath(one) for one in given if not os.path.isabs(one)}
    return not own and here in relative | {current}


def _entries_in(
    folders: Iterable[str],
) -> Iterator[tuple[Plugin, EntryPoint | DamagedRecord]]:
    """The entry points of gputop's groups. importlib.metadata is imported where one is there."""
    groups = {f"gputop.{group}": group for group in PluginGroup}
    seen = set[str]()
    for folder in dict.fromkeys(folders):
        for info in _infos(folder):
            from importlib.metadata import Distribution

            try:
                found = Distribution.at(info)
                name, version = str(found.metadata["Name"]), str(found.version)
                entries = list(found.entry_points)
                damage = None
            except Exception as error:  # noqa: BLE001 - what is damaged may fail in any way
                name, _, version = info.stem.partition("-")
                entries, damage = [], error
            if name.lower() in seen:
                continue  # hidden by an earlier folder, as for imports
            seen.add(name.lower())
            if damage is not None:
                yield _damaged(info, _text(name), _text(version), damage)
            for entry in entries:
                if entry.group in groups:
                    texts = (_text(each) for each in (entry.name, name, version))
                    yield Plugin(groups[entry.group], *texts), entry


def _damaged(info: Path, name: str, version: str, error: Exception) -> tuple[Plugin, DamagedRecord]:
    text = (info / "entry_points.txt").read_bytes()
    named = (group for group in PluginGroup if f"[gputop.{group}".encode() in text)
    group = next(named, PluginGroup.RULES)
    why = f"its entry points cannot be read: {type(error).__name__}"
    return Plugin(group, name, name, version), DamagedRecord(why)


def _infos(folder: str) -> list[Path]:
    """The records of distributions there that name a group of gputop."""
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(RECORDS))
    except OSError:
        return []
    found = []
    for name in names:
        path = Path(folder, name)
        try:
            if b"[gputop." in (path / "entry_points.txt").read_bytes():
                found.append(path)
        except OSError:
            continue
    return found


def _load(entry: EntryPoint | DamagedRecord) -> Any:
    """Import what an entry point names, unless Python would take it from an untrusted folder.

    Of a probe the file alone is found: it becomes a module of the package of probes.
    """
    if isinstance(entry, DamagedRecord):
        raise PluginRefused(entry.why)
    top = entry.module.partition(".")[0]
    if top not in sys.modules:
        spec = PathFinder.find_spec(top)
        places = [] if spec is None else [spec.origin, *(spec.submodule_search_locations or ())]
        bad = {os.path.realpath(one) for one in sys.path if _untrusted(one)}
        for place in filter(None, places):
            if os.path.realpath(os.path.dirname(place)) in bad:
                raise PluginRefused(f"{top} would come from {_text(os.path.dirname(place))}")
    if entry.group == f"gputop.{PluginGroup.PROBES}":
        found = find_spec(entry.module)
        if found is None or not found.origin:
            raise PluginRefused(f"no file of {entry.module}")
        return found.origin
    return entry.load()


def _text(text: str) -> str:
    return printable(" ".join(text.split()))[:60] or "without a name"


PLUGINS = Plugins()

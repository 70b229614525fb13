"""Predictions for one node with changing variables, each made once."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from copy import copy

from ...model.errors import GputopError
from ...model.snapshot import NodeSnapshot
from ...model.versions import Library, LibraryName, RunningLibrary, numbers
from ...nccl.decide.predict import NoGpusError, predict
from ...nccl.decide.prediction_cache import PredictionCache
from ...nccl.followed import followed
from ...nccl.prediction import NO_NVLS, Prediction
from ...nccl.settings import Settings
from ...nccl.versions import asked_for, preferred, version_for, versions
from ..catalogue.catalogue import Flag
from .changes import Changes, of_variables, version_of
from .effects import Comparison, compare

LIMIT_KEPT = 64
LIMIT_COMPARED = 16


class Stopped(GputopError):  # noqa: N818 - a newer request came, which is no error
    """Raised when nobody waits for the prediction any more."""


class Study:
    """One node, one communicator and one library version.

    A prediction takes up to some tenths of a second: never make one on the event loop.
    """

    def __init__(
        self,
        snapshot: NodeSnapshot,
        *,
        library: str | None = None,
        gpus: Sequence[str] | None = None,
        nodes: int = 1,
        values: Mapping[str, str] | None = None,
        made: Prediction | None = None,
        own: RunningLibrary | None = None,
    ) -> None:
        """`made`: the prediction for the node as it is set up, where it exists already.

        `own`: what the process that is asked about has loaded.
        """
        self.snapshot = snapshot
        self._asked, self._own = library, own
        self.library = library or (f"{own.name}-{own.version}" if own is not None else None)
        self.gpus = gpus
        self.nodes = nodes
        self.values = dict(Settings.of(snapshot).values if values is None else values)
        self.overtaken: Callable[[], bool] = lambda: False
        self._lock = threading.Lock()
        self._predictions = PredictionCache()
        self._made: dict[tuple[str | None, tuple[tuple[str, str], ...]], Prediction] = {}
        self._compared: dict[tuple[object, ...], Comparison] = {}
        """One page asks for some comparisons several times."""
        if made is not None:
            self._made[library, tuple(sorted(self.values.items()))] = made

    @property
    def set_now(self) -> Mapping[str, str]:
        """What changes start from: the variables, and the version of the library."""
        library = self.whose()
        return {**self.values, library.name.upper(): library.version}

    @property
    def followed(self) -> str:
        """Which library its predictions follow, and why, in one sentence."""
        return followed(self.snapshot.machine, self._asked, self._own)

    @property
    def of_node(self) -> bool:
        """Whether it is about all GPUs of one node, with the library that the node has."""
        return self.library is None and self.gpus is None and self.nodes == 1

    def stop_when(self, overtaken: Callable[[], bool]) -> Study:
        """The same study for one request: it raises Stopped once a newer request replaces it."""
        request = copy(self)
        request.overtaken = overtaken
        return request

    def predict(self, changes: Changes | None = None) -> Prediction:
        """The prediction with these changes.

        Raises NoGpusError, UnknownVersionError, and Stopped.
        """
        self.check()
        values, library = dict(self.values), version_of(changes or {}) or self.library
        for name, value in of_variables(changes or {}).items():
            if value is None:
                values.pop(name, None)
            else:
                values[name] = value
        key = library, tuple(sorted(values.items()))
        with self._lock:
            found = self._made.get(key)
        if found is None:
            found = predict(
                self.snapshot,
                Settings(values),
                library=library,
                gpus=self.gpus,
                nodes=self.nodes,
                cache=self._predictions,
            )
            with self._lock:
                if len(self._made) >= LIMIT_KEPT:
                    self._made.pop(next(iter(self._made)))
                self._made[key] = found
        return found

    def check(self) -> None:
        """Raise Stopped where a newer request has replaced this one."""
        if self.overtaken():
            raise Stopped

    def trouble(self) -> str | None:
        """Say why nothing can be predicted on this node; None when it can.

        Raises UnknownVersionError for a version without rules.
        """
        try:
            self.baseline()
        except NoGpusError as error:
            return str(error)
        return None

    def whose(self) -> Library:
        """The library whose rules hold, with or without GPUs."""
        machine = self.snapshot.machine
        name = asked_for(self.library, machine) if self.library else preferred(machine)[0]
        version, _ = version_for(name)
        return Library(
            name=LibraryName(version.library), version=name.rpartition("-")[2].lstrip("v")
        )

    def baseline(self) -> Prediction:
        """The prediction for the node as it is set up."""
        return self.predict()

    def compare(self, before: Changes, after: Changes) -> Comparison:
        """Compare the node with these changes and with those; both name the same variables.

        A name that only `after` has is as it is set up before.
        """
        then, now = self.predict(before), self.predict(after)
        changes = {
            name: value
            for name, value in after.items()
            if name not in before or before[name] != value
        }
        key = id(then), id(now), tuple(sorted(changes.items()))
        found = self._compared.get(key)
        if found is None:
            slower = self.predict({**after, **NO_NVLS}) if now.by_nvls_alone else None
            found = compare(then, now, changes, slower)
            if len(self._compared) >= LIMIT_COMPARED:
                self._compared.clear()
            self._compared[key] = found
        return found

    def tries(self, flag: Flag) -> tuple[Comparison, ...]:
        """Compare the node without the variable with each value worth trying."""
        without = dict.fromkeys(flag.names)
        values = values_to_try(flag, self.predict(without).library)
        now = self.values.get(flag.name)
        return tuple(
            self.compare(without, {**without, flag.name: value})
            for value in (values if now is None or now in values else (*values, now))
        )


def versions_to_try(library: Library) -> tuple[str, ...]:
    """The newest known version of each line of a library, the oldest first."""
    known = (one.number for one in versions() if one.library == library.name)
    return tuple({numbers(number)[:2]: number for number in known}.values())


def versions_named(library: Library, typed: str) -> tuple[str, ...]:
    """Other versions of a library whose number begins as typed, the newest first.

    "nccl 2.30", "v2.30.7", "upgrade"; any whole number is a version, known or not. Nothing typed
    names none: what costs most stands first then.
    """
    if not typed.strip():
        return ()
    words = typed.strip().lower().removeprefix(library.name).lstrip(" -=v")
    others = [one for one in reversed(versions_to_try(library)) if one != library.version]
    if "upgrade".startswith(words) or "ersion".startswith(words):
        return tuple(others)
    if not re.fullmatch(r"\d+(\.\d*){0,3}", words):
        return ()
    found = [one for one in others if one.startswith(words)]
    if not found and words.count(".") > 1 and words[-1] != "." and words != library.version:
        return (words,)
    return tuple(found)


def values_to_try(flag: Flag, library: Library) -> tuple[str, ...]:
    """The values worth trying; RCCL has its own name for the level NVLink."""
    if not flag.is_level or not library.is_rccl:
        return flag.tries
    return tuple("XGMI" if value == "NVL" else value for value in flag.tries)

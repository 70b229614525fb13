"""Predictions for one node with changing variables, each made once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from copy import copy

from ...model.snapshot import NodeSnapshot
from ...model.versions import Library
from ...nccl.decide.predict import NoGpusError, predict
from ...nccl.decide.prediction_cache import PredictionCache
from ...nccl.prediction import NO_NVLS, Prediction
from ...nccl.settings import Settings
from ...nccl.versions import asked_for, preferred, version_for
from ..catalogue.catalogue import Flag
from .changes import Changes
from .whatif import Comparison, compare

LIMIT_KEPT = 64


class Stopped(Exception):  # noqa: N818 - a newer request came, which is no error
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
    ) -> None:
        """`made`: the prediction for the node as it is set up, where it exists already."""
        self.snapshot = snapshot
        self.library = library
        self.gpus = gpus
        self.nodes = nodes
        self.values = dict(Settings.of(snapshot).values if values is None else values)
        self.overtaken: Callable[[], bool] = lambda: False
        self._lock = threading.Lock()
        self._predictions = PredictionCache()
        self._made: dict[tuple[tuple[str, str], ...], Prediction] = {}
        self._tried: tuple[Flag, tuple[Comparison, ...]] | None = None
        """The last answer of `tries`: one page asks for it several times."""
        if made is not None:
            self._made[tuple(sorted(self.values.items()))] = made

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
        values = dict(self.values)
        for name, value in (changes or {}).items():
            if value is None:
                values.pop(name, None)
            else:
                values[name] = value
        key = tuple(sorted(values.items()))
        with self._lock:
            found = self._made.get(key)
        if found is None:
            found = predict(
                self.snapshot,
                Settings(values),
                library=self.library,
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
        return Library(name=version.library, version=name.rpartition("-")[2].lstrip("v"))

    def baseline(self) -> Prediction:
        """The prediction for the node as it is set up."""
        return self.predict()

    def change(self, changes: Changes) -> Comparison:
        """Compare the node as it is set up with the node after these changes."""
        after = self.predict(changes)
        return compare(self.baseline(), after, changes, self.without_nvls(after, changes))

    def without_nvls(self, after: Prediction, changes: Changes) -> Prediction | None:
        """The prediction that these changes led to, without NVLS, where it rests on NVLS alone."""
        return self.predict({**changes, **NO_NVLS}) if after.by_nvls_alone else None

    def without(self, flag: Flag) -> Prediction:
        """Predict for the node with this flag unset under all its names."""
        return self.predict(dict.fromkeys((flag.name, *flag.aliases)))

    def set_here(self, name: str) -> Comparison:
        """Compare the node without a variable that is set with the node as it is set up."""
        value = self.values[name]
        return compare(self.predict({name: None}), self.baseline(), {name: value})

    def tries(self, flag: Flag) -> tuple[Comparison, ...]:
        """Compare the node without the variable with each value worth trying."""
        if self._tried is not None and self._tried[0] == flag:
            return self._tried[1]
        without = self.without(flag)
        found = []
        values = values_to_try(flag, without.library)
        now = self.values.get(flag.name)
        for value in values if now is None or now in values else (*values, now):
            changes = {flag.name: value}
            whole = {**dict.fromkeys(flag.aliases), **changes}
            after = self.predict(whole)
            found.append(compare(without, after, changes, self.without_nvls(after, whole)))
        self._tried = flag, tuple(found)
        return self._tried[1]


def values_to_try(flag: Flag, library: Library) -> tuple[str, ...]:
    """The values worth trying; RCCL has its own name for the level NVLink."""
    if flag.type != "level" or library.name != "rccl":
        return flag.tries
    return tuple("XGMI" if value == "NVL" else value for value in flag.tries)

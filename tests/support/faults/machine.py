"""A faulty machine inside this process: the real binding, readers, parsers and rules."""

from __future__ import annotations

import ctypes
import importlib.util
import sys
import types
from collections.abc import Callable, Sequence
from functools import cache, partial
from importlib.abc import InspectLoader
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

from gputop.reading import SETTLE_SECONDS, settle
from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import Diagnosis, diagnose
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.model.source import Source, SourceAbsent
from gputop.topology.node import Node
from gputop.topology.sources import NAMES
from gputop.topology.sources import load as load_source
from gputop.topology.sources.amd.amdsmi import AmdsmiReader
from gputop.topology.sources.amd.amdsmi_readings import AmdsmiReadingsReader
from gputop.topology.sources.live import LiveFeed
from gputop.topology.sources.nvidia.library import NvmlLibrary, open_library
from gputop.topology.sources.nvidia.nvml import NvmlReader
from gputop.topology.sources.nvidia.nvml_readings import NvmlReadingsReader
from tests.support.faults import amdsmi_library
from tests.support.faults.amdsmi import AmdsmiMachine
from tests.support.faults.nvml import FILE, NvmlStandIn
from tests.support.faults.plan import VARIABLE, Fault, Plan
from tests.support.faults.profiles import EARLIER, PROFILES

BINDING = "pynvml"
LIBRARIES = ("nvml", "nvml_readings", "amdsmi", "amdsmi_readings")
"""Sources that ask a vendor's library."""
Readers = dict[str, Callable[[], Callable[[], Any]]]
SITE = str(Path(__file__).parent / "site")
"""Folder for PYTHONPATH: the stand-in for a process of its own."""


@cache
def answers(profile: str) -> dict[str, Any]:
    """The raw answers of a profile, by source; nobody changes them."""
    return PROFILES[profile]()


def earlier(profile: str) -> dict[str, Any]:
    """The same at another time, where the profile has one."""
    return answers(profile + EARLIER if profile + EARLIER in PROFILES else profile)


def field_numbers(binding: Any) -> dict[str, int]:
    """The numbers of all field values that the binding names."""
    return {
        name: number
        for name in dir(binding)
        if name.startswith("NVML_FI_") and isinstance(number := getattr(binding, name), int)
    }


@cache
def _compiled() -> tuple[ModuleSpec, types.CodeType]:
    """Where the real binding is, and its code: reading it takes as long as running it."""
    spec = importlib.util.find_spec(BINDING)
    assert spec is not None
    assert isinstance(spec.loader, InspectLoader)
    code = spec.loader.get_code(BINDING)
    assert code is not None
    return spec, code


def _binding() -> types.ModuleType:
    """A copy of the real binding of its own: it keeps the library that it loads."""
    spec, code = _compiled()
    binding = importlib.util.module_from_spec(spec)
    before = sys.modules.get(BINDING)
    sys.modules[BINDING] = binding  # it looks itself up while it is executed
    try:
        exec(code, vars(binding))
    finally:
        if before is None:
            del sys.modules[BINDING]
        else:
            sys.modules[BINDING] = before
    return binding


def _loaded(library: NvmlStandIn, name: str) -> Any:
    return library if name == FILE else ctypes.CDLL(name)


def library_of(profile: str, faults: Sequence[Fault], binding: types.ModuleType) -> NvmlStandIn:
    """The library of a machine, for a binding that knows the numbers of the field values."""
    return NvmlStandIn(
        answers(profile)["nvml"], field_numbers(binding), faults, earlier(profile)["nvml"]
    )


def stand_in(profile: str, faults: Sequence[Fault] = ()) -> types.ModuleType:
    """The real binding with a machine of this profile behind it."""
    binding = _binding()
    library = library_of(profile, faults, binding)
    binding.CDLL = lambda name, *_, **__: _loaded(library, name)  # type: ignore[attr-defined]
    return binding


def _nvidia(profile: str, faults: Sequence[Fault]) -> Readers:
    binding = stand_in(profile, faults)
    start: Callable[[], NvmlLibrary] = partial(open_library, lambda: binding)
    return {
        "nvml": partial(NvmlReader, start),
        "nvml_readings": partial(NvmlReadingsReader, start),
    }


def _amd(profile: str, faults: Sequence[Fault]) -> Readers:
    """The readers as they are: the library of this process is another machine's from now on."""
    stand_in = amdsmi_library.LOADED
    assert stand_in is not None, "tests.support.faults.amdsmi_library has to be loaded"
    stand_in.machine = AmdsmiMachine(answers(profile)["amdsmi"], faults, earlier(profile)["amdsmi"])
    return {"amdsmi": AmdsmiReader, "amdsmi_readings": AmdsmiReadingsReader}


def sources(
    profile: str, faults: Sequence[Fault] = (), *, bare: bool = False, deadline: float | None = None
) -> tuple[Source, ...]:
    """The sources of a machine. `bare`: its /sys and /proc are empty."""
    readers = _amd(profile, faults) if "amdsmi" in answers(profile) else _nvidia(profile, faults)
    found = []
    for name in NAMES:
        source = load_source(name)
        given = None if bare or name in LIBRARIES else answers(profile).get(name)
        reader = readers.get(name) or (_absent if given is None else partial(_given, given))
        found.append(
            Source(
                id=name,
                interval_seconds=source.interval_seconds,
                deadline_seconds=deadline or source.deadline_seconds,
                reader=reader,
                opening=source.opening,
                parse=source.parse,
            )
        )
    return tuple(found)


def _given(answer: Any) -> Callable[[], Any]:
    return lambda: answer


def _absent() -> Callable[[], Any]:
    raise SourceAbsent("not on this machine")


def read(profile: str, faults: Sequence[Fault] = (), *, bare: bool = False) -> NodeSnapshot:
    """A single thorough reading of a machine that does not block."""
    feed = LiveFeed(sources(profile, faults, bare=bare), thorough=True)
    try:
        while not feed.settled():
            feed.wait(0.01)
            feed.snapshot()
        return feed.snapshot()
    finally:
        feed.close()


def settled(
    profile: str,
    faults: Sequence[Fault] = (),
    *,
    bare: bool = False,
    deadline: float | None = None,
    seconds: float = SETTLE_SECONDS,
) -> NodeSnapshot:
    """What a plain command reads of a machine that may block: it waits so long at most."""
    feed = LiveFeed(sources(profile, faults, bare=bare, deadline=deadline), thorough=True)
    return settle(feed, seconds)


def diagnosed(profile: str, faults: Sequence[Fault] = (), *, bare: bool = False) -> Diagnosis:
    """What the rules say of it."""
    return diagnose(Case(Node(read(profile, faults, bare=bare))))


def of_process(profile: str, *faults: Fault) -> dict[str, str]:
    """The variables of a process that runs on such a machine; its /sys and /proc are the real."""
    return {"PYTHONPATH": SITE, VARIABLE: Plan(profile=profile, faults=faults).to_json()}

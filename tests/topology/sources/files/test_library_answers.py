"""A number that is read at once is the one that is read the long way."""

from __future__ import annotations

from typing import Any

import pytest

from gputop.topology.sources.amd.answers import AMDSMI
from gputop.topology.sources.files.field_reader import Missing
from gputop.topology.sources.files.library_answers import Answers, LibraryDialect, Path
from gputop.topology.sources.nvidia.answers import NVML

NUMBERS: tuple[Any, ...] = (
    0, 7, -1, True, False, 1.0, None, "7", [], {}, 0xFFFF, 0xFFFFFFFF, 2**63, 2**64 - 2, 2**64 - 1,
    2**64,
)  # fmt: skip
REFUSALS: tuple[dict[str, Any], ...] = (
    {}, {"error": "NVMLError_Unknown: Unknown Error"}, {"ret": 3}, {"needs_args": 1}, {"ull": 9},
)  # fmt: skip
PATHS: tuple[Path, ...] = (
    "key", ("key",), ("key", "value"), ("key", 0), ("key", 1), ("fields", "value"),
    ("fields", "key"), ("key", "value", "value"), "absent", ("absent", "value"),
)  # fmt: skip


def answers() -> list[dict[str, Any]]:
    found: list[Any] = []
    for number in NUMBERS:
        found += [number, [number], [], *({"value": number} | refusal for refusal in REFUSALS)]
        found += [{"value": {"value": number} | refusal} for refusal in REFUSALS]
    return [{"key": one, "fields": {"key": one, "value": one}} for one in found]


@pytest.mark.parametrize("dialect", [NVML, AMDSMI])
def test_at_once_is_the_same_as_the_long_way(dialect: LibraryDialect) -> None:
    read = 0
    for raw in answers():
        for path in PATHS:
            at_once = dialect.fast_int(raw, path)
            found = dialect.find(raw, (path,) if isinstance(path, str) else path)
            whole = found if isinstance(found, Missing) else dialect.whole(found)
            if at_once is None:
                continue
            assert (type(at_once), at_once) == (type(whole), whole), (raw, path)
            read += 1
    assert read > 50


@pytest.mark.parametrize("dialect", [NVML, AMDSMI])
def test_usual_answers_are_read_at_once(dialect: LibraryDialect) -> None:
    raw = {"temp": 41, "memory": {"used": 2**37}, "yes": 1}
    assert [dialect.fast_int(raw, path) for path in ("temp", ("memory", "used"))] == [41, 2**37]
    a = Answers(raw, dialect)
    assert (a.flag("known", "yes"), a.whole("used", ("memory", "used"))) == (True, 2**37)
    assert a.gaps == ()

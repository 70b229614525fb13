"""What the verdict on a machine rests on, as its readers and parsers understood it.

The fields are those of `topology/diagnosis/evidence.py`: one that is new there counts here at once.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import Diagnosis, diagnose
from gputop.topology.diagnosis.evidence import FREE, said
from gputop.topology.model.machine import NvLink
from gputop.topology.model.record import Record
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.node import Node

UNIQUE = ("uuid",)
"""Fields that no two GPUs share."""
ABSENT = "the driver does not say"
"""The word for amdsmi's "N/A", by which it says that a product or a driver does not have it."""
NONE = {("c2c_enabled", False), ("mig_enabled", False), ("mig_pending", False), ("active", False)}
"""Answers that say of a GPU without something that it has none."""
SOUND = {
    ("persistence", False),
    ("retirement_pending", False),
    ("unrepairable", False),
    ("throttle_reasons", None),  # as of MI200; NVIDIA's mask of all ones has bits without a name
}
"""Answers of sound machines that this one does not give: no verdict is worse with them."""
ANY = frozenset((
    "utilization_percent", "memory_used_bytes", "temperature_c", "pcie_replays",
    "corrected_volatile", "rows_remapped_corrected", "pages_retired_single", "replay_errors",
    "recovery_errors", "crc_errors", "corrected", "errors", "clock_sm_mhz",
    "uncorrected_volatile", "uncorrected_aggregate", "uncorrected", "throttle_reasons",
))  # fmt: skip
"""Fields of which every number is the truth on some sound machine: loads, clocks at rest and what
holds them down, temperatures, counters of what was set right, and those since the driver was
loaded: a notice says what is odd about them, and only what grows, or slows a load, is a fault."""


_NAMES = ("link", "dst", "block", "remote_address")


class Facts(msgspec.Struct, frozen=True):
    """Values by GPU, record and field."""

    values: dict[tuple[str, str, str], object]

    def touched(self, sound: Facts) -> list[str]:
        """Fields that say what no GPU of the sound machine says, or nothing any more."""
        usual: dict[tuple[str, str], set[str]] = {}
        for (_, record, field), value in sound.values.items():
            usual.setdefault((record.partition(" ")[0], field), set()).add(repr(value))
        shared = Counter(
            repr(value) for (*_, field), value in self.values.items() if field in UNIQUE
        )
        found = set()
        for key in sound.values.keys() | self.values.keys():
            value, (_, record, field) = self.values.get(key), key
            alike = usual.get((record.partition(" ")[0], field), set())
            fine = (
                value == ABSENT
                or (field, value) in SOUND
                or (repr(value) in alike and shared[repr(value)] < 2)
            )
            fine = fine or (sound.values.get(key) is None and (field, value) in NONE)
            if value != sound.values.get(key) and not fine and (value is None or field not in ANY):
                found.add(field)
        return sorted(found)


class Answer(msgspec.Struct, frozen=True):
    """What a check says of a machine, and what that rests on."""

    diagnosis: Diagnosis
    facts: Facts


def answer(snapshot: NodeSnapshot) -> Answer:
    """Examine a machine."""
    case = Case(Node(snapshot))
    values = {
        (gpu.address, f"{type(record).__name__} {_which(record)}", field): (
            ABSENT if value is None and record.why(field) == ABSENT else value
        )
        for gpu, records in said(case)
        for record in records
        for field, value in msgspec.structs.asdict(record).items()
        if field not in ("gaps", "nvlinks", "xgmi")
        and field not in FREE[type(record)]
        and not _nested(value)
    }
    return Answer(diagnose(case), Facts(values))


def _which(record: Record) -> str:
    names = ("link", "dst", "block") if isinstance(record, NvLink) else _NAMES
    return str([getattr(record, name, "") for name in names])


def _nested(value: object) -> bool:
    """Whether it holds records, which stand for themselves."""
    return isinstance(value, Record) or (
        isinstance(value, tuple) and bool(value) and isinstance(value[0], Record)
    )

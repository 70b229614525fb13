"""The base of every record: immutable, comparable, JSON-able; it says what is missing and why."""

from collections.abc import Iterable
from typing import Any, ClassVar, Protocol, TypeVar

import msgspec

NOT_ASKED = "not asked"
"""The reason of a gap that a later reading or another tool would fill."""
REFUSED = "though others of its model have some"
"""The end of a gap's reason where the driver denies something that exists."""
GRANTED = "though P2P over NVLink is granted"
"""The same, where another answer of the driver shows the link."""
PCIE_ALONE = "nvidia-smi topo -mp shows PCIe alone: NVLinks are not in it"


class Gap(msgspec.Struct, frozen=True):
    """One value that could not be read."""

    field: str
    """Name of the field of the record that carries this gap."""
    why: str
    """The reason in words: "Not Supported", "no permission", "not asked by nvidia-smi topo -m"."""


def gaps_of(fields: Iterable[str], why: str) -> tuple[Gap, ...]:
    """Fields that are unknown for one reason."""
    return tuple(Gap(field, why) for field in fields)


class Addressed(Protocol):
    """A record of something that may have a PCI address."""

    @property
    def address(self) -> str | None:
        """The address."""


D = TypeVar("D", bound=Addressed)


def by_address(records: Iterable[D]) -> dict[str, D]:
    """Records by their PCI address, if they have one; of several with one the first."""
    found: dict[str, D] = {}
    for record in records:
        if record.address:
            found.setdefault(record.address, record)
    return found


R = TypeVar("R", bound="Record")


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A record of tuples and scalars; a field that is None is unknown, and `gaps` says why."""

    gaps: tuple[Gap, ...] = ()
    identity: ClassVar[tuple[str, ...] | None] = None
    """Fields that identify the thing a record describes: `merge` makes one record of those with the
    same values. (): there is only one such thing where the record stands. None: records are never
    merged; the record of the first source is taken whole."""

    def filled(self: R, **known: Any) -> R:
        """The record with these fields known, and without their gaps."""
        gaps = tuple(gap for gap in self.gaps if gap.field not in known)
        return msgspec.structs.replace(self, **known, gaps=gaps)

    def why(self, field: str) -> str | None:
        """Say why `field` could not be read; None when nothing is recorded about it."""
        return next((gap.why for gap in self.gaps if gap.field == field), None)

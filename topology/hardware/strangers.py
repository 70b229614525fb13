"""GPUs of a vendor that has no record: what is not known about them, in plain words."""

from __future__ import annotations

from collections.abc import Sequence

from ..model.machine import Gpu
from .vendor import Vendor
from .vendors import vendors_of

NOT_KNOWN = (
    "its driver and tools, what joins its GPUs, its collective library, and what a healthy GPU "
    "of it reaches"
)
"""The facts of a record, which are missing for such a vendor."""


def strangers(gpus: Sequence[Gpu]) -> tuple[tuple[Vendor, tuple[Gpu, ...]], ...]:
    """The vendors without a record, each with its GPUs."""
    return tuple(
        (vendor, tuple(gpu for gpu in gpus if gpu.vendor == vendor.id))
        for vendor in vendors_of(gpus)
        if not vendor.known
    )


def counted(gpus: Sequence[Gpu]) -> str:
    """A count of GPUs: "1 GPU", "2 GPUs"."""
    return f"{len(gpus)} GPU{'s' * (len(gpus) != 1)}"


def remarks(gpus: Sequence[Gpu]) -> tuple[str, ...]:
    """A remark for each vendor without a record."""
    return tuple(
        f"gputop does not know the vendor of {counted(theirs)}, {vendor.name}. Not known of it: "
        f"{NOT_KNOWN}"
        for vendor, theirs in strangers(gpus)
    )

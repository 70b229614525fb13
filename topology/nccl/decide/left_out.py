"""GPUs of vendors whose collective library is not modelled here: they take no part."""

from __future__ import annotations

from collections.abc import Sequence

from ...hardware import strangers
from ...hardware.vendors import vendors_of
from ...model.machine import Gpu
from ..versions import versions


def remarks(gpus: Sequence[Gpu]) -> tuple[str, ...]:
    """What is not known of such GPUs, a sentence for each vendor."""
    titles = list(dict.fromkeys(version.library.upper() for version in versions()))
    found = []
    for vendor in vendors_of(gpus):
        if vendor.known and vendor.library not in titles:
            theirs = [gpu for gpu in gpus if gpu.vendor == vendor.id]
            found.append(
                f"what {vendor.library} does with {strangers.counted(theirs)} of {vendor.name} is "
                f"not known: there are rules for {' and '.join(titles)} alone"
            )
    return (*found, *strangers.remarks(gpus))

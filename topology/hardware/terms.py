"""Terms: the names of a library, a link or a tool on GPUs of one vendor or of several."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

import msgspec

from .vendor import Vendor
from .vendors import VENDORS, vendors_of

if TYPE_CHECKING:
    from ..model.machine import Gpu


class VendorTerms(msgspec.Struct, frozen=True, kw_only=True):
    """The terms of a node. A text names them in braces: "run {library}"."""

    library: str
    """"NCCL"."""
    libraries: str
    """The library, or all libraries where several fit: "NCCL or RCCL"."""
    link: str
    """"NVLink"."""
    links: str
    """"NVLinks"."""
    any_link: str
    """The link, or all kinds of links where several fit: "NVLink or xGMI"."""
    any_links: str
    """The plural of it: "NVLinks or xGMI links"."""
    runtime: str
    """"CUDA"."""
    management: str
    """"NVML"."""
    distances: str
    """"codes of nvidia-smi topo -m"."""
    letters: str
    """"codes of nvidia-smi"."""

    def fill(self, template: str, **more: str) -> str:
        """Put the terms, and further words by name, into a text of gputop.

        Never use it for a text that contains what a device, a file or a user wrote: it may hold
        braces.
        """
        return template.format(**msgspec.structs.asdict(self), **more)


@cache
def terms_for(vendor: Vendor | None) -> VendorTerms:
    """The terms for GPUs of one vendor; without one, those of the first and all alternatives."""
    libraries = " or ".join(maker.library for maker in VENDORS)
    own = vendor or VENDORS[0]
    return VendorTerms(
        library=own.library if own.known else libraries,
        libraries=vendor.library if vendor and vendor.known else libraries,
        link=own.link,
        links=own.links,
        any_link=vendor.link if vendor else " or ".join(maker.link for maker in VENDORS),
        any_links=vendor.links if vendor else " or ".join(maker.links for maker in VENDORS),
        runtime=own.runtime,
        management=own.management,
        distances=own.distances,
        letters=own.letters,
    )


def terms_of(gpus: Iterable[Gpu]) -> VendorTerms:
    """The terms for a node with these GPUs: of the only vendor, or of the only known one."""
    found = vendors_of(gpus)
    known = [vendor for vendor in found if vendor.known] or found
    return terms_for(known[0] if len(known) == 1 else None)


def library_terms(library: str) -> VendorTerms:
    """The terms of the vendor of a collective library, as versions name it: "rccl"."""
    return terms_for(next((maker for maker in VENDORS if maker.library.lower() == library), None))

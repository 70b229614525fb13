"""Where the links of one GPU lead, as relations ask for it."""

from __future__ import annotations

from collections import Counter

from ..hardware.vendors import vendor_of
from ..model.element import NOT_IN_XML
from ..model.machine import Gpu
from .links import link_end


def nvlinks(count: int | str) -> str:
    """Say how many: "1 NVLink", "18 NVLinks"."""
    return f"{count} NVLink{'' if str(count) == '1' else 's'}"


class LinkEnds:
    """Where the links of one GPU lead."""

    def __init__(self, gpu: Gpu) -> None:
        self.source = link_source(gpu)
        self.direct = Counter(link_end(link) for link in gpu.nvlinks if link.active)
        """Active NVLinks by the address at their other end."""
        self.to_switches = switch_links(gpu)
        self.switched = (
            f"{self.source}: {nvlinks(self.to_switches)} of {gpu.address} to NVSwitches active"
        )
        self.xgmi = {link.remote_address for link in gpu.xgmi if link.active is not False}
        self.xgmi_links: dict[str, int | None] = {}
        """How many links the driver counts in the first entry for each address."""
        for link in gpu.xgmi:
            self.xgmi_links.setdefault(link.remote_address, link.links)


def switch_links(gpu: Gpu) -> int:
    """Count the active NVLinks of a GPU that lead to NVSwitches, seen or hidden."""
    return sum(1 for link in gpu.nvlinks if link.active and link.to_switch)


def link_source(gpu: Gpu) -> str:
    """Where a GPU's links are known from: its driver, or a topology XML alone."""
    if gpu.why("uuid") == NOT_IN_XML:
        return "topology XML"
    return vendor_of(gpu).link_source

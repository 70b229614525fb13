"""Known defects that one version of the library has and the other does not, on this node."""

from __future__ import annotations

from collections.abc import Iterator

from ..diagnosis.defects.scene import WORST_FIRST, of_machine
from ..diagnosis.defects.table import Defect, defects
from ..diagnosis.defects.words import ends
from ..model.page import Section
from ..model.snapshot import NodeSnapshot
from ..model.versions import Library, Product

MOST_TOLD = 8
LIBRARIES = {"nccl": Product.NCCL, "rccl": Product.RCCL}


def differing(snapshot: NodeSnapshot, library: Library, other: Library) -> tuple[str, ...]:
    """Defects of one version that another one does not have and the node does not rule out.

    First those of which all conditions are met, each time the worst first.
    """
    settings = {variable.name: variable.value for variable in snapshot.environment}
    scene = of_machine(snapshot.machine, settings)
    found = [
        defect
        for defect in defects()
        if defect.product is LIBRARIES[library.name]
        if defect.has(library.version) and defect.has(other.version) is False
        if scene.fits(defect) is not False
    ]
    found.sort(key=lambda one: (not scene.fits(one), WORST_FIRST.index(one.harm)))
    return tuple(map(_told, found))


def _told(defect: Defect) -> str:
    only = f" (only {defect.only})" if defect.only else ""
    return f"{defect.what}{only}; {ends(defect)}"


def sections(left: tuple[str, ...], brought: tuple[str, ...]) -> Iterator[Section]:
    """What the other version leaves behind, and what it brings."""
    titles = {
        "Known defects that are left behind": left,
        "Known defects that come with it": brought,
    }
    for title, told in titles.items():
        more = (f"and {len(told) - MOST_TOLD} more, which --json lists",) * (len(told) > MOST_TOLD)
        if told:
            yield Section(title=title, bullets=(*told[:MOST_TOLD], *more))

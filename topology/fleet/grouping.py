"""Groups of nodes that are alike in all their facts."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from .facts import digest
from .hosts import fold, in_order
from .record import NodeReport
from .section import CATEGORIES


class AlikeNodes(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes with the same product and the same facts."""

    product: str
    hosts: tuple[str, ...]
    digests: dict[str, str]
    """Category -> digest of the facts; {} where the files hold none."""
    summary: str
    """What they run, in a few words: "driver 580.95.05, CUDA 13.0, kernel 6.8.0"."""
    reference: bool = False
    """Whether it is the largest of its product: what the others are compared with, mostly."""

    @property
    def folded(self) -> str:
        """The hosts as a list."""
        return fold(self.hosts)


def groups(nodes: Mapping[str, NodeReport]) -> tuple[AlikeNodes, ...]:
    """The groups, the largest first."""
    alike: dict[tuple[object, ...], list[NodeReport]] = {}
    for report in nodes.values():
        alike.setdefault((report.product, *map(id, report.facts)), []).append(report)
    made: list[AlikeNodes] = []
    seen: set[str] = set()
    for members in sorted(alike.values(), key=lambda members: (-len(members), members[0].host)):
        first = members[0]
        made.append(
            AlikeNodes(
                product=first.product,
                hosts=tuple(in_order(report.host for report in members)),
                digests={
                    name: digest(facts)
                    for name, facts in zip(CATEGORIES, first.facts, strict=False)
                },
                summary=_summary(first),
                reference=first.product not in seen,
            )
        )
        seen.add(first.product)
    return tuple(made)


def _summary(report: NodeReport) -> str:
    driver = report.category("driver")
    parts = [f"{what} {driver[what]}" for what in ("driver", "CUDA", "ROCm") if what in driver]
    parts += [driver[what] for what in ("kernel",) if what in driver]
    return ", ".join(parts)

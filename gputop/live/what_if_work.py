"""What the threads of the what-if work out; nothing here touches a widget."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from gputop.live.refresh import NO_NICS, with_nics
from gputop.topology.diagnosis.engine import Diagnosis
from gputop.topology.explain.value_rows import ALL_REDUCE, reach_in_words, reach_of
from gputop.topology.flags.what_if.changes import with_changes
from gputop.topology.flags.what_if.remedy import Remedy, remedy
from gputop.topology.flags.what_if.study import Stopped, Study
from gputop.topology.flags.what_if.wording import NVLS_UNSURE, brief
from gputop.topology.nccl.decide.predict import NoGpusError
from gputop.topology.node import Node
from gputop.topology.report import Report

UNASKED = "{}'s model does not ask by which transport bytes go"


class WhatIfOutcome(msgspec.Struct, frozen=True, eq=False):
    """A node with changed variables: what the library does, what the rules find."""

    changes: tuple[tuple[str, str | None], ...]
    node: Node
    diagnosis: Diagnosis | None
    basis: Report
    """The report of the node as it is set up, from which it was worked out."""
    summary: tuple[str, ...]
    """What the changes do, in clauses."""

    def fits(self, real: Report) -> bool:
        """Whether nothing has changed since that decides: the prediction and the findings."""
        basis = self.basis
        return basis.prediction is real.prediction and basis.diagnosis is real.diagnosis

    def shown(self, real: Report) -> Report | None:
        """The newest readings with these changes; None once the machine is another one."""
        node = self.node.follow(with_changes(real.snapshot, dict(self.changes)))
        return Report(node, self.diagnosis, real.events) if node.decided else None


def work_out(
    study: Study,
    real: Report,
    changes: Mapping[str, str | None],
    diagnose: Callable[[Node], Diagnosis],
) -> WhatIfOutcome | None:
    """Predict with the changes and ask the rules; None when a newer request has come."""
    node = real.node.follow(with_changes(real.snapshot, changes)).decide()
    node, trouble = with_nics(node)
    try:
        comparison = study.compare({}, changes)
        before, after = reach_of(comparison, real.node, changes)
        reached = reach_in_words(before, after)
        summary = brief(comparison, f"{ALL_REDUCE}: {reached}" if reached else None)
        if comparison.without_nvls is not None:
            summary += (NVLS_UNSURE,)
        elif reached and comparison.effect.pairs and (before == after or comparison.effect.blind):
            summary += (UNASKED.format(study.whose().name.upper()),)
    except Stopped:
        return None
    except NoGpusError as error:
        summary = (f"no prediction: {error}",)
    return WhatIfOutcome(
        changes=tuple(changes.items()),
        node=node,
        diagnosis=None if real.diagnosis is None else diagnose(node),
        basis=real,
        summary=(*summary, f"{NO_NICS}: {trouble}") if trouble else summary,
    )


def find_remedy(
    study: Study, src: str, dst: str, held: Mapping[str, str | None]
) -> tuple[Remedy | None] | None:
    """The change that gives a pair P2P, in a tuple; None when a newer request has come."""
    try:
        return (remedy(study, src, dst, held),)
    except Stopped:
        return None
    except NoGpusError:
        return (None,)

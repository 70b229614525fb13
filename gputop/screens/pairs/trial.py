"""The change of a variable that would give a pair P2P, tried as soon as it is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gputop.topology.explain.nccl import pair_decision

if TYPE_CHECKING:
    from gputop.screens.host import ScreenHost
    from gputop.topology.flags.what_if.remedy import Remedy
    from gputop.topology.report import Report
    from gputop.widgets.measure import Pair


class Trial:
    """Asks for the change, which a thread predicts, and tries it when somebody wants it."""

    def __init__(self, host: ScreenHost) -> None:
        self._host = host
        self._wanted = False

    def start(self, report: Report | None, pair: Pair | None) -> None:
        """Try what gives the pair P2P; where it has P2P, offer the usual changes."""
        self._wanted = report is not None and pair is not None and _lacks_p2p(report, pair)
        if not self._wanted:
            self._host.action_what_if()

    def drop(self) -> None:
        """Try nothing: another pair is selected."""
        self._wanted = False

    def remedy(self, report: Report, pair: Pair | None) -> tuple[bool, Remedy | None]:
        """Whether it is known what gives the pair P2P, and the change."""
        if pair is None or not _lacks_p2p(report, pair):
            return False, None
        known, change = self._host.what_if.remedy(*pair)
        if self._wanted and known:
            self._wanted = False
            if change is None:
                self._host.say("no variable gives this pair P2P", severity="warning")
            else:
                self._host.what_if.change(change.name, change.value)
        return known, change


def _lacks_p2p(report: Report, pair: Pair) -> bool:
    decision = pair_decision(report.node, *pair)
    return decision is not None and decision.transport != "P2P"

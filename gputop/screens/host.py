"""What a screen needs of the app. A screen knows no more of the app than this."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from gputop.live.findings_controller import FindingsController
    from gputop.live.probe_controller import ProbeController
    from gputop.live.recent import Recent
    from gputop.live.what_if import WhatIfController
    from gputop.messages import SuiteState
    from gputop.screens.selection import PickedDevices
    from gputop.terminal.preferences import Preferences
    from gputop.topology.hardware.terms import VendorTerms

T = TypeVar("T")


class ScreenHost(Protocol):
    """The app as its screens see it."""

    trouble: str
    """Our own failure, in words; empty when there is none."""
    interval: float
    """Seconds between two readings."""
    probing: ProbeController
    findings: FindingsController
    what_if: WhatIfController
    selected: PickedDevices
    remembered: Preferences
    recent: Recent
    """The readings of the last minutes."""

    @property
    def words(self) -> VendorTerms:
        """What library, links and tools of the node are called."""

    @property
    def suite(self) -> SuiteState | None:
        """The suite of probes that was started last."""

    def guarded(self, work: Callable[..., T], *given: object) -> T | None:
        """Call `work`; None and words in `trouble` where it fails."""

    def say(self, text: str, **rest: Any) -> None:
        """Show a note."""

    def copy_command(self, commands: tuple[str, ...]) -> None:
        """Put one of these commands on the clipboard; called again, the next one."""

    def action_copy(self) -> None:
        """Copy what is selected."""

    def action_why(self) -> None:
        """Explain what is selected."""

    def action_what_if(self) -> None:
        """Try a variable out."""

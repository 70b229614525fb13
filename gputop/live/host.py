"""The app as its screens, its panels and what runs behind them see it. They know no more of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from textual.geometry import Size
    from textual.message import Message

    from gputop.live.findings_controller import FindingsController
    from gputop.live.jobs_controller import JobsController
    from gputop.live.probe_controller import ProbeController
    from gputop.live.recent import Recent
    from gputop.live.refresh import Refresher
    from gputop.live.selection import PickedDevices
    from gputop.live.session_controller import SessionController
    from gputop.live.what_if import WhatIfController
    from gputop.measuring.nccl_check import NcclCheck
    from gputop.measuring.state import SuiteState
    from gputop.terminal.preferences import Preferences
    from gputop.topology.hardware.terms import VendorTerms
    from gputop.topology.report import Report
    from gputop.topology.sources.feed import Feed
    from gputop.widgets.spans import Span

T = TypeVar("T")


class AppHost(Protocol):
    """Either app, of a node or of a fleet."""

    trouble: str
    """Our own failure, in words; empty when there is none."""
    findings: FindingsController
    remembered: Preferences

    def guarded(self, work: Callable[..., T], *given: object) -> T | None:
        """Call `work`; None and words in `trouble` where it fails."""

    def say(self, text: str, **rest: Any) -> None:
        """Show a note."""

    def copy_text(self, text: str, note: str = "") -> None:
        """Put a text on the clipboard."""

    def copy_command(self, commands: tuple[str, ...]) -> None:
        """Put one of these commands on the clipboard; called again, the next one."""

    def post_message(self, message: Message) -> bool:
        """Take a message, from any thread."""

    @property
    def run_worker(self) -> Callable[..., object]:
        """Textual's, which runs something in a thread."""

    @property
    def size(self) -> Size:
        """Cells of the terminal."""


class Redrawn(Protocol):
    """A screen."""

    def redraw(self) -> None:
        """Draw the report again."""

    def draw_bars(self) -> None:
        """Draw the lines above and below again."""


class NodeHost(AppHost, Protocol):
    """The app of a node."""

    report: Report | None
    probe: SuiteState | None
    suite: SuiteState | None
    """The suite of probes that was started last."""
    nccl_check: NcclCheck | None
    interval: float
    """Seconds between two readings."""
    refresher: Refresher | None
    feed: Feed | None
    probing: ProbeController
    what_if: WhatIfController
    sessions: SessionController
    jobs: JobsController
    selected: PickedDevices
    recent: Recent
    """The readings of the last minutes."""
    pasted: str
    """A text for the screen Log, until that takes it."""
    compared: tuple[str, bytes]
    """What the screen Diff holds the node against: its name, and a text that was pasted."""
    log_sign: Span | None
    """What the log on the screen Log came to, as sign and ink; None where nothing is wrong."""

    def read_pasted(self, text: str) -> None:
        """Read a text that was pasted, as a log or what a tool printed."""

    @property
    def words(self) -> VendorTerms:
        """What library, links and tools of the node are called."""

    @property
    def view(self) -> Redrawn | None:
        """The current screen."""

    def action_copy(self) -> None:
        """Copy what is selected."""

    def action_screen(self, name: str) -> None:
        """Show the screen of that name."""

    def action_why(self) -> None:
        """Explain what is selected."""

    def action_what_if(self) -> None:
        """Try a variable out."""

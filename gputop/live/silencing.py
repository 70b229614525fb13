"""The app's side of findings: what somebody silenced for this session."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from textual.dom import DOMNode

from gputop import messages

if TYPE_CHECKING:
    from gputop.app import GpuTop
    from gputop.live.findings import Key, Shown


class FindingsDesk(DOMNode):
    """Mixed into the app. What is silenced stays so until the app ends or shows another node."""

    quiet: frozenset[Key] = frozenset()
    _copied: tuple[tuple[str, ...], int] = ((), 0)
    """The commands of which one was copied last, and the place of the next."""

    @property
    def shown(self) -> Shown | None:
        """The findings of the report that is shown; None where the rules were not asked yet."""
        report = cast("GpuTop", self).report
        if report is None or report.diagnosis is None:
            return None
        # Here, since it brings the rules along, which no first picture needs.
        from gputop.live.findings import shown

        return shown(report, self.quiet)

    def silence(self, key: Key) -> bool:
        """Silence a finding, or let it speak again; says whether it is silent now."""
        self.quiet ^= {key}
        return key in self.quiet

    def copy_command(self, commands: tuple[str, ...]) -> None:
        """Copy the first of these commands; asked again, the next one."""
        known, place = self._copied
        place = place % len(commands) if known == commands else 0
        self._copied = (commands, place + 1)
        note = f" ({place + 1} of {len(commands)}, y: the next)" if len(commands) > 1 else ""
        cast("GpuTop", self).copy_text(commands[place], note)

    def on_policy_failed(self, message: messages.PolicyFailed) -> None:
        """Say that all findings are shown, whatever the site silenced."""
        cast("GpuTop", self).say(
            message.text, title="The site's policy cannot be used", severity="warning"
        )

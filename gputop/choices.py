"""What is chosen from a list over the screen: the theme, and a demo node."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from textual.dom import DOMNode

if TYPE_CHECKING:
    from gputop.app import GpuTop


class Choices(DOMNode):
    """Mixed into the app."""

    @property
    def _chooser(self) -> GpuTop:
        return cast("GpuTop", self)

    def action_choose_theme(self) -> None:
        """Choose a theme; the one under the cursor shows at once."""
        from gputop.widgets.panels import Choice

        app = self._chooser
        before = app.theme
        names = [name for name in app.available_themes if name.startswith("gputop-")]
        names += [name for name in app.available_themes if name not in names]

        def wear(name: str | None) -> None:
            app.theme = before if name is None else name

        app.push_screen(Choice("Theme", [(n, n) for n in names], before, preview=wear), wear)

    @property
    def offers_demos(self) -> bool:
        """Whether no GPU answers here, or a demo is shown already."""
        report = self._chooser.report
        if report is None:
            return False
        snapshot = report.snapshot
        answers = any(gpu.uuid is not None for gpu in snapshot.machine.gpus)
        return not answers or snapshot.source[0].startswith("demo ")

    def action_demos(self) -> None:
        """Choose a demo node, when no GPU answers here."""
        if not self.offers_demos:
            return
        from gputop.topology.recorded.demos import demo
        from gputop.topology.recorded.feeds import DemoFeed
        from gputop.widgets.panels import Choice

        app = self._chooser

        def look(name: str | None) -> None:
            if name is not None:
                app.follow(DemoFeed(name, interval=app.interval))

        options = [(name, f"{name}: {demo.title(name)}") for name in demo.names()]
        app.push_screen(Choice("Demo nodes: invented figures", options), look)

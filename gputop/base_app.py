"""BaseApp: what the apps of a node and of a fleet share. Themes, notes, the clipboard, faults."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from importlib import import_module
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar

from textual.cache import LRUCache
from textual.css.stylesheet import Stylesheet
from textual.events import Callback
from textual.notifications import Notify
from textual.theme import Theme

from gputop import theming
from gputop.live.findings_controller import FindingsController
from gputop.screens.notice import Notice
from gputop.terminal import hangup, job_control
from gputop.terminal.clean import clean
from gputop.terminal.inks import THEMES
from gputop.terminal.preferences import Preferences
from gputop.topology.plugins import PLUGINS
from gputop.widgets.quick_keys import QuickKeysApp

if TYPE_CHECKING:
    from gputop import actions as actions
    from gputop.topology.model.snapshot import NodeSnapshot
else:

    class _Late:
        """The module of the actions, which only some keys need: the first of them imports it."""

        def __getattr__(self, name: str) -> Any:
            return getattr(import_module("gputop.actions"), name)

    actions = _Late()

T = TypeVar("T")
R = TypeVar("R")
log = logging.getLogger(__name__)
log.addHandler(logging.NullHandler())
SOURCES = 512
"""Room for the styles of all widgets; each kind has its own."""


class KeptStylesheet(Stylesheet):
    """Parses what is new, and everything only after a change of the theme.

    Textual's own parses all styles again whenever a screen is shown for the first time.
    """

    def __init__(self, *, variables: dict[str, str] | None = None) -> None:
        super().__init__(variables=variables)
        self._parse_cache = LRUCache(SOURCES)

    def set_variables(self, variables: dict[str, str]) -> None:
        """Take other colours, if they are others."""
        if variables != self._variables:
            super().set_variables(variables)

    def reparse(self) -> None:
        """Parse what was not parsed with these variables."""
        self.parse()


class BaseApp(QuickKeysApp[R]):
    """An app of gputop; satisfies live/host.py:AppHost."""

    CSS_PATH = str(THEMES / "gputop.tcss")

    def __init__(self, remembered: Preferences | None = None) -> None:
        super().__init__()
        self.stylesheet = KeptStylesheet(variables=self.get_css_variables())
        self.trouble = ""
        """Our own failure, in words; empty when there is none."""
        self.remembered = remembered or Preferences()
        self.findings = FindingsController()
        theming.apply_theme(self, self.remembered.get("theme"))
        self.animation_level = "none"

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Give our own variables to themes that do not know them, such as Textual's."""
        return theming.own_variables(self)

    def join_terminal(self) -> None:
        """Fit the terminal's colours, and listen for what its shell does; for `on_mount`."""
        if not self.is_headless:
            if self.console.color_system in {"standard", "windows"}:
                self.register_theme(theming.for_few_colours())
                self.theme = theming.SIXTEEN
            hangup.watch(lambda code: self.exit(return_code=code))
            job_control.watch(self._driver)
            # After Ctrl+Z the terminal is empty, and Textual does not know it.
            self.app_resume_signal.subscribe(self, lambda _: self.screen.refresh(layout=True))
        self.call_after_refresh(self._settle)

    def _settle(self) -> None:
        # The modules in memory stay, so the collector need not look at them again. Whoever opens an
        # app switches it off, which saves a tenth of the start.
        gc.freeze()
        gc.enable()
        if trouble := "; ".join(self.settings_trouble()):
            self.say(trouble, title="Settings", severity="warning")
        if failed := theming.register_all(self, self.remembered.get("theme")):
            self.say("; ".join(failed), title="Themes that cannot be used", severity="warning")
        Thread(target=self._with_plugins, name="plugins", daemon=True).start()

    def _with_plugins(self) -> None:
        """Look plugins up, in a thread of its own behind the first row."""
        if not PLUGINS.listed():
            PLUGINS.release()
            return
        from gputop.answers.plugins import plugins  # with all that plugins add to

        troubles: list[str] = []
        PLUGINS.hear(troubles.append)
        PLUGINS.release(plugins)
        themes = theming.plugged()
        self.join_plugins()
        with suppress(RuntimeError):  # the app was closed meanwhile
            if themes:
                self.post_message(Callback(callback=partial(self._add_themes, themes)))
            if troubles:
                self._say_of_plugins("; ".join(troubles))
        PLUGINS.hear(self._say_of_plugins)

    def join_plugins(self) -> None:
        """Let the plugins join what this app is about; called in a thread."""

    def _say_of_plugins(self, text: str) -> None:
        with suppress(RuntimeError):
            self.say(text, title="Plugins that cannot be used", severity="warning")

    def _add_themes(self, themes: tuple[Theme, ...]) -> None:
        for theme in themes:
            if theme.name not in self.available_themes:
                self.register_theme(theme)
                if theme.name == self.remembered.get("theme"):
                    self.theme = theme.name

    def settings_trouble(self) -> Iterable[str]:
        """What of the user's settings cannot be used."""
        return filter(None, [self.remembered.file.trouble])

    def _fatal_error(self) -> None:
        """Leave; whoever runs the app says why. Textual would print all local variables."""
        self._close_messages_no_wait()

    def action_suspend_process(self) -> None:
        """Stop until the shell continues us."""
        if job_control.can_stop():
            super().action_suspend_process()
        else:
            self.say(job_control.UNABLE, severity="warning")

    def say(self, text: str, **rest: Any) -> None:
        """Notify, as plain text."""
        self.post_message(Notify(Notice(clean(text, 600), **rest)))

    def on_notify(self) -> None:
        """Let what was said before go, before Textual adds the new: no two cover the screen."""
        self._notifications.clear()

    def guarded(self, work: Callable[..., T], *given: object) -> T | None:
        """Run what draws or explains; a mistake of ours becomes a line on the screen."""
        try:
            done = work(*given)
        except Exception as error:  # the app border: the screen stays
            text = f"cannot show this: {type(error).__name__}: {error}"
            if not self.trouble:
                log.exception("cannot show this")
                self.on_first_trouble(text)
            self.trouble = text
            return None
        self.trouble = ""
        return done

    def on_first_trouble(self, text: str) -> None:
        """Say that something cannot be shown, where no screen shows `trouble`."""

    def action_choose_theme(self) -> None:
        """Choose a theme; the one under the cursor shows at once."""
        actions.choose_theme(self)

    def keep_theme(self, name: str) -> None:
        """Use a theme, also at the next start."""
        self.theme = name
        self.remembered.keep("theme", "" if name == theming.DEFAULT else name)

    def copy_command(self, commands: tuple[str, ...]) -> None:
        """Copy the first of these commands; called again, the next one."""
        self.copy_text(*self.findings.next_command(commands))

    def copy_text(self, text: str, note: str = "") -> None:
        """Put a text on the clipboard of the terminal, and say so; `note` goes after it."""
        actions.copy_text(self, text, note)

    def exported(self) -> tuple[NodeSnapshot | None, str]:
        """What is written beside the picture of the screen, and the name of the screen."""
        return None, ""

    def action_export(self) -> None:
        """Write the screen, and what belongs to it, to the current folder."""
        actions.export_screen(self, *self.exported())

"""Panels that lie over a screen: why, the keys, a choice among a few things."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

from rich.console import RenderableType
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.color import Color
from textual.containers import Container
from textual.content import Content
from textual.renderables.background_screen import BackgroundScreen
from textual.screen import ModalScreen
from textual.widgets import OptionList

from gputop.printing.render import page_text, render
from gputop.terminal.clean import clean
from gputop.widgets.board import Board
from gputop.widgets.quick_keys import ClosesOnce
from gputop.widgets.spans import Line, left, wrapped
from gputop.widgets.typed_line import TypedLine

if TYPE_CHECKING:
    from gputop.live.host import AppHost
    from gputop.topology.model.page import Page


class Dimmed(BackgroundScreen):
    """The screen below a panel, dimmed; each style once, and not again for each piece of text."""

    @classmethod
    def process_segments(cls, segments: Iterable[Segment], color: Color) -> Iterator[Segment]:
        """The same texts with the colour laid over their own."""
        styles: dict[Style | None, Style | None] = {}
        for segment in segments:
            text, style, control = segment
            if control:
                yield segment
                continue
            if style not in styles:
                ((_, styles[style], _),) = super().process_segments([Segment("", style)], color)
            yield Segment(text, styles[style])


def dimmed(drawn: RenderableType) -> RenderableType:
    """What a panel lays below itself; as it is where that is no screen."""
    return Dimmed(drawn.screen, drawn.color) if isinstance(drawn, BackgroundScreen) else drawn


class Panel(ModalScreen[str | None], ClosesOnce[str | None]):
    """A framed text that scrolls; Esc closes it."""

    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,w", "close", show=False),
        Binding("up,k", "scroll_by(-1)", show=False),
        Binding("down,j", "scroll_by(1)", show=False),
        Binding("pageup", "scroll_by(-10)", show=False),
        Binding("pagedown,space", "scroll_by(10)", show=False),
        Binding("y", "copy_text", show=False),
    ]
    HINT = "Esc closes"

    def __init__(self, heading: str, host: AppHost) -> None:
        super().__init__()
        self.heading = heading
        self.host = host

    def render(self) -> RenderableType:
        """The screen below, dimmed."""
        return dimmed(super().render())

    def compose(self) -> ComposeResult:
        """A frame around the text."""
        with Container(id="frame") as frame:
            frame.border_title = Content(self.heading)
            frame.border_subtitle = Content(self.HINT)
            yield Board(id="text")

    def lines(self, width: int) -> Sequence[Line]:
        """The text for that width."""
        raise NotImplementedError

    def on_mount(self) -> None:
        """Write the text."""
        self._write(self.app.size.width)

    def on_resize(self, event: events.Resize) -> None:
        """Write the text for the new width."""
        self._write(event.size.width)

    def _write(self, width: int) -> None:
        # Nine tenths of the screen but 110 cells at most (gputop.tcss), less frame and padding.
        room = max(min(width * 9 // 10, 110) - 5, 20)
        lines = self.host.guarded(self.lines, room)
        trouble: Line = ((clean(self.host.trouble), "bad"),)
        self.query_one(Board).show([trouble] if lines is None else lines)

    def on_click(self, event: events.Click) -> None:
        """A click beside the frame closes the panel."""
        if event.widget is self:
            self.dismiss(None)

    def action_close(self) -> None:
        """Close the panel."""
        self.dismiss(None)

    def action_scroll_by(self, lines: int) -> None:
        """Scroll the text."""
        self.query_one(Board).scroll_relative(0, lines, animate=False)

    def action_copy_text(self) -> None:
        """Copy the text."""
        self.host.copy_text(self.query_one(Board).text())


class WhyPanel(Panel):
    """An explanation: claim, evidence, consequence, fix."""

    def __init__(self, why: Page, host: AppHost) -> None:
        super().__init__(clean(why.title, 90), host)
        self.explanation = why
        what = "the command" if why.commands else "the fix" if why.fix else ""
        self.HINT = f"y copies {what} · Esc closes" if what else "y copies · Esc closes"

    def lines(self, width: int) -> Sequence[Line]:
        """The explanation for that width."""
        return render(self.explanation.blocks, width)

    def action_copy_text(self) -> None:
        """Copy one command after the other, else the fix, else the whole explanation."""
        why = self.explanation
        if why.commands:
            self.host.copy_command(why.commands)
        else:
            self.host.copy_text(why.fix_text or page_text(why))


class HelpPanel(Panel):
    """The keys of a screen."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("question_mark", "glossary", show=False)]
    HINT = "? what the words mean · Esc closes"

    def __init__(
        self,
        title: str,
        own: Sequence[tuple[str, str]],
        common: Sequence[tuple[str, str]],
        host: AppHost,
        glossary: Callable[[], Page] | None = None,
    ) -> None:
        super().__init__(f"Keys · {title}", host)
        self._own, self._common, self._glossary = own, common, glossary
        if glossary is None:
            self.HINT = Panel.HINT

    def action_glossary(self) -> None:
        """Show what the words mean instead."""
        app, glossary = self.app, self._glossary
        self.dismiss(None)
        if glossary is not None:
            app.push_screen(WhyPanel(glossary(), self.host))

    def lines(self, width: int) -> Sequence[Line]:
        """Two columns: key, meaning; what only this screen has goes before the rest."""
        column = 2 + max(len(keys) for keys, _ in (*self._own, *self._common))
        lines: list[Line] = []
        for keys in (self._own, self._common):
            if lines and keys:
                lines.append(())
            for key, meaning in keys:
                lines += wrapped(((left(key, column), "key bold"), (meaning, "")), width, column)
        return lines


class ConfirmPanel(Panel):
    """Something that waits for a yes; gives "yes", or None."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "agree", show=False)]
    HINT = "Enter starts · Esc does not"

    def __init__(self, heading: str, said: Sequence[str], host: AppHost) -> None:
        super().__init__(clean(heading, 90), host)
        self._said = said

    def lines(self, width: int) -> Sequence[Line]:
        """The sentences, each on lines of its own."""
        return [line for text in self._said for line in wrapped(((clean(text, 400), ""),), width)]

    def action_agree(self) -> None:
        """Say yes."""
        self.dismiss("yes")


class ChoicePanel(ModalScreen[str | None], ClosesOnce[str | None]):
    """A list to choose from; gives the chosen id, or None."""

    AUTO_FOCUS = "OptionList"
    HINT = "Enter chooses · Esc closes"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "close", show=False)]

    def __init__(
        self,
        heading: str,
        options: Sequence[tuple[str, str]],
        chosen: str | None = None,
        preview: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__(classes="panel")
        self._heading = heading
        self._options = options
        self._chosen = chosen
        self._preview = preview

    def render(self) -> RenderableType:
        """The screen below, dimmed."""
        return dimmed(super().render())

    def compose(self) -> ComposeResult:
        """A frame around the list."""
        with Container(id="frame") as frame:
            frame.border_title = Content(self._heading)
            frame.border_subtitle = Content(self.HINT)
            # Content, never a string: a string would be read as markup.
            yield OptionList(*(Content(clean(label)) for _, label in self._options), markup=False)

    def on_mount(self) -> None:
        """Begin at what is chosen already."""
        ids = [option for option, _ in self._options]
        if self._chosen in ids:
            self.query_one(OptionList).highlighted = ids.index(self._chosen)

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Show at once what a choice would do."""
        if self._preview is not None and _is_there(event):
            self._preview(self._options[event.option_index][0])

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Give the choice."""
        if _is_there(event):
            self.dismiss(self._options[event.option_index][0])

    def action_close(self) -> None:
        """Choose nothing."""
        self.dismiss(None)


def _is_there(event: OptionList.OptionMessage) -> bool:
    """Whether the option still stands in its place: what was typed behind a click changes them."""
    now = event.option_list.options
    return event.option_index < len(now) and now[event.option_index] is event.option


class DockedChoicePanel(ChoicePanel):
    """A narrow list at the right of a screen that stays as it is and shows what is chosen."""

    HINT = "Enter keeps · Esc"


class TypedChoicePanel(ChoicePanel):
    """A list to choose from that follows what is typed above it.

    An option that ends with "=" is continued in the line and not chosen yet.
    """

    AUTO_FOCUS = "Input"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "step(-1)", show=False),
        Binding("down", "step(1)", show=False),
        Binding("pageup", "step(-8)", show=False),
        Binding("pagedown", "step(8)", show=False),
    ]

    def __init__(
        self, heading: str, offers: Callable[[str], Sequence[tuple[str, str]]], placeholder: str
    ) -> None:
        """`offers`: the options for what is typed, each with its label."""
        super().__init__(heading, offers(""))
        self._offers, self._placeholder = offers, placeholder

    def compose(self) -> ComposeResult:
        """A frame around the line and the list."""
        with Container(id="frame") as frame:
            frame.border_title = Content(self._heading)
            frame.border_subtitle = Content("↑ ↓ Enter chooses · Esc closes")
            line = TypedLine(placeholder=self._placeholder)
            line.cursor_blink = False
            yield line
            yield OptionList(markup=False)

    def on_mount(self) -> None:
        """Offer what is usual."""
        self._offer("")

    def on_input_changed(self, event: TypedLine.Changed) -> None:
        """Offer what goes with the letters."""
        event.stop()
        self._offer(event.value)

    def _offer(self, typed: str) -> None:
        self._options = self._offers(typed)
        found = self.query_one(OptionList)
        found.clear_options()
        found.add_options([Content(clean(label)) for _, label in self._options])
        found.highlighted = 0 if self._options else None

    def on_input_submitted(self, event: TypedLine.Submitted) -> None:
        """Take the option under the cursor."""
        event.stop()
        place = self.query_one(OptionList).highlighted
        if place is not None:
            self._take(self._options[place][0])

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Take the option that was clicked."""
        event.prevent_default()
        if _is_there(event):
            self._take(self._options[event.option_index][0])

    def _take(self, option: str) -> None:
        if not option.endswith("="):
            self.dismiss(option)
            return
        line = self.query_one(TypedLine)
        line.value, line.cursor_position = option, len(option)
        line.focus()

    def action_step(self, lines: int) -> None:
        """Move the cursor of the list."""
        found, last = self.query_one(OptionList), len(self._options) - 1
        if found.highlighted is not None:
            found.highlighted = min(max(found.highlighted + lines, 0), last)

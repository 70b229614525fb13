"""Themes: themes/*.toml and the user's own, and the inks of drawn text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import platformdirs
from rich.style import Style
from textual.color import Color
from textual.theme import Theme

from gputop.terminal.inks import ATTRIBUTES, DARK_FILE, HEAVY, SIXTEEN_FILE, THEMES
from gputop.topology.model.errors import GputopError
from gputop.topology.plugins import PLUGINS, Plugin, PluginGroup, PluginRefused
from gputop.topology.toml import tomllib, user_table

if TYPE_CHECKING:
    from textual.app import App

DEFAULT = "gputop-dark"
LIGHT = "gputop-light"
SIXTEEN = "gputop-sixteen"
USER_FOLDER_NAME = "themes"
_COLORS = [
    "primary",
    "secondary",
    "warning",
    "error",
    "success",
    "accent",
    "foreground",
    "background",
    "surface",
    "panel",
    "boost",
]
_LIMIT_BYTES = 64 * 1024


class ThemeError(GputopError, ValueError):
    """A theme file that cannot be used; the text says why."""


def builtin(*, default_only: bool = False) -> tuple[Theme, ...]:
    """Themes that come with gputop, the default one first; or only that, for a quick start."""
    first = _shipped(DARK_FILE)
    if default_only:
        return (first,)
    names = sorted(entry.name for entry in THEMES.iterdir() if entry.name.endswith(".toml"))
    rest = (_shipped(name) for name in names)
    return (first, *(theme for theme in rest if theme.name != first.name))


def for_few_colours() -> Theme:
    """The theme for a terminal of sixteen colours."""
    return _shipped(SIXTEEN_FILE)


def user_folder() -> Path | None:
    """The folder of the user's own themes; None for a user without a home."""
    try:
        return platformdirs.user_config_path("gputop") / USER_FOLDER_NAME
    except RuntimeError:
        return None


def own_variables(app: App[Any]) -> dict[str, str]:
    """Our own variables, for themes that do not know them, such as Textual's."""
    ours = app.get_theme(DEFAULT if app.current_theme.dark else LIGHT)
    return {} if ours is None else ours.variables


def apply_theme(app: App[Any], name: str) -> None:
    """Start an app with the theme of this name, if it is one of ours; else with the default."""
    for theme in builtin(default_only=name in ("", DEFAULT)):
        app.register_theme(theme)
    app.theme = name if name in app.available_themes else DEFAULT


def register_all(app: App[Any], wanted: str = "") -> tuple[str, ...]:
    """Give an app all themes, the user's own too; a sentence for each that cannot be used.

    `wanted` is worn if it is one of the user's own.
    """
    first, *themes = builtin()
    loaded, failed = load_user(user_folder(), first)
    for theme in (*themes, *loaded):
        app.register_theme(theme)
    if wanted in {theme.name for theme in loaded}:
        app.theme = wanted
    return failed


def plugged() -> tuple[Theme, ...]:
    """Themes that plugins add, each a table as a theme's file has it. Reading may take a moment."""
    return PLUGINS.of(PluginGroup.THEMES, _accept)


def _accept(plugin: Plugin, thing: Any) -> Iterator[Theme]:
    if not isinstance(thing, dict):
        raise PluginRefused(f"a {type(thing).__name__} is no theme, which is a table")
    first, *others = builtin()
    theme = of_table(thing, first)
    if any(theme.name == own.name for own in (first, *others)):
        raise PluginRefused(f"there is a theme {theme.name} already, which stays")
    yield theme


def load_user(folder: Path | None, defaults: Theme) -> tuple[tuple[Theme, ...], tuple[str, ...]]:
    """Read the user's own themes: those that work, and one sentence for each that does not."""
    loaded: list[Theme] = []
    failed: list[str] = []
    if folder is None:
        return (), ()
    try:
        paths = sorted(folder.glob("*.toml"))
    except OSError:
        return (), ()
    for path in paths:
        try:
            if not path.is_file():
                raise ThemeError("not a regular file")
            loaded.append(of_table(user_table(path, _LIMIT_BYTES), defaults))
        except tomllib.TOMLDecodeError as error:
            failed.append(f"{path.name}: not TOML: {error}")
        except (OSError, ValueError, ThemeError) as error:
            failed.append(f"{path.name}: {error}")
    return tuple(loaded), tuple(failed)


def _shipped(name: str) -> Theme:
    return of_table(tomllib.loads((THEMES / name).read_text(encoding="utf-8")))


def of_table(data: dict[str, Any], defaults: Theme | None = None) -> Theme:
    """Turn a theme file into a theme; what it leaves out comes from `defaults`.

    Raises ThemeError.
    """
    name = data.get("name")
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise ThemeError("a theme needs a name")
    variables = dict(defaults.variables) if defaults is not None else {}
    variables |= _colours(data, "variables", None)
    colors = {key: getattr(defaults, key) for key in _COLORS} if defaults is not None else {}
    colors |= _colours(data, "colors", _COLORS)
    if not colors.get("primary"):
        raise ThemeError("colors.primary is missing")
    dark = data.get("dark", True)
    if not isinstance(dark, bool):
        raise ThemeError("dark is true or false")
    return Theme(name=name.strip(), dark=dark, variables=variables, **colors)


def _colours(data: dict[str, Any], table: str, allowed: list[str] | None) -> dict[str, str]:
    found = data.get(table, {})
    if not isinstance(found, dict):
        raise ThemeError(f"[{table}] is a table of colours")
    for key, value in found.items():
        if allowed is not None and key not in allowed:
            raise ThemeError(
                f"{table}.{key} is no colour of a theme; there are {', '.join(allowed)}"
            )
        try:
            Color.parse(value)
        except Exception as error:
            raise ThemeError(f"{table}.{key}: {value!r} is no colour") from error
    return found


class Inks:
    """Named styles of one theme, for text that is drawn line by line.

    An ink is words separated by blanks: the name of a theme variable ("muted", "link-nvlink",
    "bad") gives its colour; "heat-0" to "heat-5" colour the ground and choose a
    text that is legible on it; "cursor" and "pick" colour the ground and take "cursor-text" and
    "pick-text" if the theme has them; "bold", "underline", "reverse" and the like add themselves.
    "@screen('map')" at the end makes a button: a click calls that action, of the app unless it
    names "screen." itself.
    """

    def __init__(self, variables: dict[str, str]) -> None:
        self._variables = variables
        self._styles: dict[str, Style] = {"": Style.null()}

    def style(self, ink: str) -> Style:
        """Give the style of an ink; a name that no theme knows draws plain."""
        style = self._styles.get(ink)
        if style is None:
            words, _, action = ink.partition("@")
            style = Style.combine([Style.null(), *map(self._word, words.split())])
            if action:
                named = action if action.startswith(("app.", "screen.")) else f"app.{action}"
                style += Style.from_meta({"@click": named})
            self._styles[ink] = style
        return style

    def colour(self, name: str) -> Color | None:
        """Give the colour of a theme variable; None when there is none of that name."""
        value = self._variables.get(name)
        return None if value is None else Color.parse(value)

    def _word(self, word: str) -> Style:
        if word in ATTRIBUTES:
            return Style.parse(word)
        colour = self.colour(word)
        if colour is None:
            return Style.null()
        if word in {"cursor", "pick"}:
            # Without a text colour of its own the cursor leaves the inks under it as they are.
            text = self.colour(f"{word}-text")
            return Style(
                color=None if text is None else text.rich_color,
                bgcolor=colour.rich_color,
                bold=True,
            )
        if word.startswith("heat-"):
            return Style(color=colour.get_contrast_text(0.95).rich_color, bgcolor=colour.rich_color)
        return Style(color=colour.rich_color, bold=True if word in HEAVY else None)


_WORN: WeakKeyDictionary[App[Any], tuple[str, Inks]] = WeakKeyDictionary()
"""App -> the name of the theme in use, and its inks."""


def inks_of(app: App[Any]) -> Inks:
    """Inks of the theme that an app uses; the same object until it changes its theme."""
    worn = _WORN.get(app)
    if worn is None or worn[0] != app.theme:
        worn = _WORN[app] = (app.theme, Inks(app.get_css_variables()))
    return worn[1]

"""What a person chose and finds again at the next start: theme, level of probes, sort order.

One small JSON file in the user's state folder, for its owner alone. Where it cannot be read or
written, the app starts with the defaults and forgets.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import platformdirs

from gputop.terminal.settings import SettingsFile, of_user
from gputop.terminal.writing import write_whole
from gputop.topology.model.characters import json_text

NAME = "app.json"
MOST_BYTES = 65_536
LONGEST = 200
"""Characters of a value: a file from elsewhere may hold anything."""


class Preferences:
    """Choices by name; whoever asks checks whether the value still means something."""

    def __init__(self, path: Path | None = None, file: SettingsFile | None = None) -> None:
        """`path`: where choices are kept; None keeps them until the app ends. `file`: settings."""
        self._path = path
        self._choices = {} if path is None else _read(path)
        self.file = file or SettingsFile()
        own = self.file.settings
        self._set = {"start": own.start, "sort": own.order, "theme": own.theme}
        """What the settings say, by the name of the choice; another choice ends with the app."""

    @classmethod
    def of_user(cls) -> Preferences:
        """The choices of the user; of one without a home until the app ends."""
        with suppress(RuntimeError):
            folder = Path(platformdirs.user_state_path("gputop"))
            if folder.is_absolute():
                return cls(folder / NAME, of_user())
        return cls(file=of_user())

    def get(self, name: str) -> str:
        """The choice of this name; "" where there is none."""
        return self._set.get(name) or self._choices.get(name, "")

    @property
    def as_shipped(self) -> bool:
        """Whether the start is Node with its GPUs by number and the usual columns."""
        start, columns = self.get("start"), self.file.settings.columns
        return not (self.get("sort") or columns or start not in ("", "node"))

    def keep(self, name: str, value: str) -> None:
        """Remember a choice; "" forgets it."""
        if self.get(name) == value:
            return
        if self._set.get(name):
            self._set[name] = value
            return
        self._choices.pop(name, None)
        if value:
            self._choices[name] = value[:LONGEST]
        if self._path is not None:
            with suppress(OSError, ValueError):
                self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                write_whole(self._path, json_text(self._choices))


def _read(path: Path) -> dict[str, str]:
    with suppress(OSError, ValueError, RecursionError):
        # A fifo or device would hold the start up.
        if path.is_file() and path.stat().st_size <= MOST_BYTES:
            found = json.loads(path.read_text(encoding="utf-8"))
            if isinstance(found, dict):
                return {
                    name: value
                    for name, value in found.items()
                    if isinstance(value, str) and 0 < len(value) <= LONGEST
                }
    return {}

"""What a person sets for every start of the app: app.toml in the user's configuration folder.

start = "map"                        # screen at the start
order = "power"                      # of the GPUs, as `s` on Node names it
columns = ["Util %", "Mem GiB", "W"]   # of the GPUs on Node, by their headings, in this order
theme = "gputop-light"

A setting goes before what was chosen in the app last time.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
import platformdirs

from gputop.terminal.clean import clean

NAME = "app.toml"
MOST_BYTES = 65_536
MOST_COLUMNS = 40


class AppSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One app.toml; "" and () leave it to the app."""

    start: str = ""
    order: str = ""
    theme: str = ""
    columns: tuple[str, ...] = ()

    @property
    def in_words(self) -> str:
        """What is set: "start map, order power"."""
        set_to = {**msgspec.structs.asdict(self), "columns": ", ".join(self.columns)}
        return "; ".join(f"{name} {clean(value, 80)}" for name, value in set_to.items() if value)


class SettingsFile(NamedTuple):
    """The file, and why it cannot be used."""

    settings: AppSettings = AppSettings()
    trouble: str = ""
    """A sentence; "" where it can be used, or is not there."""
    is_there: bool = False

    @property
    def line(self) -> str:
        """For a bug report: what is set, or what is wrong."""
        if not self.is_there:
            return f"no {NAME} in the configuration folder"
        return self.trouble or f"{NAME}: {self.settings.in_words or 'nothing is set'}"


def of_user() -> SettingsFile:
    """The user's settings; those of a file that cannot be used are the defaults."""
    with suppress(RuntimeError, OSError):
        path = Path(platformdirs.user_config_path("gputop")) / NAME
        # A fifo or device would hold the start up.
        if path.is_absolute() and path.is_file():
            return _read(path)
    return SettingsFile()


def _read(path: Path) -> SettingsFile:
    from gputop.topology.toml import user_table

    try:
        settings = msgspec.convert(user_table(path, MOST_BYTES), AppSettings)
        if len(settings.columns) > MOST_COLUMNS:
            raise ValueError(f"more than {MOST_COLUMNS} columns")
    except OSError as error:
        return SettingsFile(trouble=f"{NAME}: {error.strerror}", is_there=True)
    except ValueError as error:
        return SettingsFile(trouble=f"{NAME}: {clean(error, 200)}", is_there=True)
    return SettingsFile(settings, is_there=True)

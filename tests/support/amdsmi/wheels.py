"""The real bindings: wheels of amdsmi out of the package index, one of every minor version.

Here they are only fetched; `signatures` reads them with `ast`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

VERSIONS = ("5.7.0", "6.0.2", "6.1.2", "6.2.4", "6.3.3", "6.4.3", "7.0.2")
"""The last of each minor version that the index has; 5.7 is refused by the source."""
FOLDER = "GPUTOP_AMDSMI_WHEELS"
"""Names a folder with wheels: they are taken before the index is asked, and tested as well."""
_SECONDS, _PATIENCE = 40.0, 4.0


class NoWheel(Exception):  # noqa: N818 - not an error: there may be no network
    """No wheel of this version can be had; the text says why."""


def given() -> dict[str, Path]:
    """The wheels of the named folder, by version."""
    folder = os.environ.get(FOLDER)
    wheels = sorted(Path(folder).rglob("amdsmi-*.whl")) if folder else []
    return {wheel.name.split("-")[1]: wheel for wheel in wheels}


def versions() -> list[str]:
    """All versions to be tested."""
    return sorted(
        {*VERSIONS, *given()}, key=lambda v: [int(p) for p in v.split(".") if p.isdigit()]
    )


class Shelf:
    """Wheels kept in a folder; what is missing is fetched with pip, once."""

    def __init__(self, folder: Path, python: str = sys.executable) -> None:
        self.folder = folder
        self._python = python
        self._refused: str | None = None

    def wheel(self, version: str) -> Path:
        """The wheel of a version. Raises NoWheel."""
        name = f"amdsmi-{version}-*.whl"
        found = [*filter(None, [given().get(version)]), *self.folder.glob(name)]
        if found:
            return found[0]
        if self._refused is not None:
            raise NoWheel(self._refused)
        with tempfile.TemporaryDirectory(dir=self.folder) as place:
            began = time.monotonic()
            try:
                self._download(version, place)
            except NoWheel as error:
                # An index that is out of reach would let every other version wait as long.
                if time.monotonic() - began > _PATIENCE:
                    self._refused = str(error)
                raise
            for wheel in Path(place).glob(name):
                # Two test processes may fetch it at once: the later one replaces an equal file.
                return wheel.replace(self.folder / wheel.name)
        raise NoWheel(f"the package index has no wheel of amdsmi {version}")

    def _download(self, version: str, place: str) -> None:
        # --only-binary: a source package would be built, which is to run it.
        command = [self._python, "-m", "pip", "download", "--quiet", "--no-deps", "--no-input"]
        command += ["--only-binary=:all:", "--retries=0", "--timeout=8", "--dest", place]
        command += ["--disable-pip-version-check", f"amdsmi=={version}"]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NoWheel(f"no package index answers: {type(error).__name__}") from error
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
            why = lines[-1] if lines else done.stderr.strip()[-200:]
            raise NoWheel(f"no package index gives amdsmi {version}: {why}")

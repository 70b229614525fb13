"""A light copy of the checkout in which a test adds something and runs the command."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import cache_from_source
from pathlib import Path

from tests.support.places import ROOT

LEFT_OUT = ("tests/", ".github/", ".ci/")
"""What no command of gputop reads."""


def copied_names() -> list[str]:
    """Every file that a copy holds, as a path below the checkout; new files count too."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    return [name for name in listed if not name.startswith(LEFT_OUT) and (ROOT / name).is_file()]


class CopiedCheckout:
    """The code, data and documents of this checkout in a folder that a test may change."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in copied_names():
            self._copy(ROOT / name, root / name)
            if name.endswith(".py"):
                # Byte code stays valid as the copy keeps the time of the source: no recompiling.
                compiled = Path(cache_from_source(ROOT / name))
                if compiled.is_file():
                    self._copy(compiled, Path(cache_from_source(root / name)))

    @staticmethod
    def _copy(origin: Path, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(origin, target)

    def write(self, name: str, text: str) -> None:
        """Add a file; AssertionError where there is one of that name already."""
        path = self.root / name
        assert not path.exists(), f"{name} is there already"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def replace(self, name: str, old: str, new: str) -> None:
        """Change the one place of a file that holds `old`; AssertionError unless it is one."""
        path = self.root / name
        before = path.read_text()
        assert before.count(old) == 1, f"{old!r} stands {before.count(old)} times in {name}"
        path.write_text(before.replace(old, new))

    def add_line(self, name: str, after: str, line: str) -> None:
        """Put one line below the only line that reads `after`, with the same indentation."""
        lines = (self.root / name).read_text().split("\n")
        (place,) = (number for number, text in enumerate(lines) if text.strip() == after)
        indentation = lines[place][: len(lines[place]) - len(lines[place].lstrip())]
        lines.insert(place + 1, indentation + line)
        (self.root / name).write_text("\n".join(lines))

    def python(
        self, *arguments: str, seconds: float = 120, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run Python in the copy, so that `gputop` is the copy's; nothing is checked."""
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.root,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
            env={**os.environ, "XDG_CONFIG_HOME": str(self.root / "no-config"), **environment},
        )

    def gputop(
        self, *arguments: str, seconds: float = 120, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run the copy's gputop with these arguments; nothing is checked."""
        return self.python("-m", "gputop", *arguments, seconds=seconds, **environment)

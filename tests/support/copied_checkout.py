"""A light copy of the checkout in which a test adds something and runs the command."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.util import cache_from_source
from pathlib import Path

from tests.support.places import ROOT

LEFT_OUT = ("tests/", ".github/", ".ci/")
"""What no command of gputop reads."""
ASK = """
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
from gputop.__main__ import run

answers = []
for arguments in json.loads(sys.argv[1]):
    said, problems = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="") for _ in range(2))
    with redirect_stdout(said), redirect_stderr(problems):
        code = run(arguments)
    texts = []
    for stream in (said, problems):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode())
    answers.append((code, *texts))
json.dump(answers, sys.stdout)
"""


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
        self._made, self._folders = self._stamps(), self._walk()

    def restore(self) -> None:
        """Take back whatever a test added or changed."""
        now = self._stamps()
        for path in now.keys() - self._made.keys():
            path.unlink()
        for path, stamp in self._made.items():
            if now.get(path) != stamp:
                self._copy(ROOT / path.relative_to(self.root), path)
        # An empty folder could be imported too.
        for folder in self._walk() - self._folders:
            shutil.rmtree(folder, ignore_errors=True)
        assert self._stamps() == self._made

    def _walk(self) -> set[str]:
        """All folders but those of byte code."""
        return {folder for folder, _, _ in os.walk(self.root) if not folder.endswith("__pycache__")}

    def _stamps(self) -> dict[Path, tuple[int, int]]:
        """Time and size of each file but byte code, which Python compares with its source."""
        return {
            Path(folder, name): (status.st_mtime_ns, status.st_size)
            for folder in self._walk()
            for name in os.listdir(folder)
            if os.path.isfile(os.path.join(folder, name))
            for status in [os.lstat(os.path.join(folder, name))]
        }

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

    def gputop(self, *lines: str) -> list[subprocess.CompletedProcess[str]]:
        """Run these command lines of the copy's gputop in one process, in order."""
        commands = [line.split() for line in lines]
        done = self.python("-c", ASK, json.dumps(commands))
        assert done.returncode == 0, done.stderr
        return [
            subprocess.CompletedProcess(command, *answer)
            for command, answer in zip(commands, json.loads(done.stdout), strict=True)
        ]

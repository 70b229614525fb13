"""Tries gputop.pex on every Python there is: `python -m tests.versions.single_file gputop.pex`.

Each runs without a network, with a home and a current folder that cannot be written, and finds
nothing but itself on PATH; that takes root or user namespaces. Prints what starts take, and ends
with 1 if something fails.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

from tests.support.places import ROOT
from tests.versions import pythons

ALONE = ("unshare", "--map-root-user", "--net", "--mount")
"""A network and mounts of its own for one process."""
TOOLS = ("chmod", "env", "id", "ldd", "mkdir", "mv", "sh", "python")
COMMANDS = {
    "--version": 0,
    "topo --demo hgx-h100-8": 0,
    "check --quick --demo hgx-h100-8": 0,
    "check --quick --demo sick-h100-8": 1,
}
"""What is asked, and its exit code."""
DRAWN, PATIENCE_SECONDS = b"GPU7", 60.0


def main() -> int:
    """Try the file on all Pythons, each in a place of its own."""
    parser = argparse.ArgumentParser(prog="python -m tests.versions.single_file")
    parser.add_argument("file", type=Path)
    parser.add_argument("--inside", type=Path, metavar="PYTHON", help=argparse.SUPPRESS)
    given = parser.parse_args()
    file = given.file.resolve()
    if given.inside is not None:
        return _inside(file, given.inside)
    failed = 0
    for version, python in sorted(pythons.found().items()):
        print(f"Python {'.'.join(map(str, version))}, no network, read-only home", flush=True)
        again = [sys.executable, "-m", "tests.versions.single_file", str(file), "--inside"]
        done = subprocess.run([*ALONE, *again, str(python.resolve())], cwd=ROOT, check=False)
        failed |= done.returncode
    return failed


def _inside(file: Path, python: Path) -> int:
    place = Path("/mnt")
    _mount("-t", "tmpfs", "tmpfs", str(place))
    home, tools = place / "home", place / "bin"
    for folder in (home, tools, place / "tmp"):
        folder.mkdir()
    for name in TOOLS:
        found = python if name == "python" else shutil.which(name)
        if found:
            (tools / Path(found).name).symlink_to(found)
    _mount("--bind", str(home), str(home))
    _mount("-o", "remount,bind,ro", str(home))
    environment = {
        "HOME": str(home), "PATH": str(tools), "TMPDIR": str(place / "tmp"),
        "LANG": "C.UTF-8", "TERM": "xterm-256color",
    }  # fmt: skip
    failed = 0
    for line, code in {"--version ": 0, **COMMANDS}.items():
        before = time.monotonic()
        done = subprocess.run(
            [file, *line.split()], cwd=home, env=environment, capture_output=True, check=False
        )
        seconds = time.monotonic() - before
        first = (done.stdout.splitlines() or done.stderr.splitlines() or [b""])[0]
        print(f"  {seconds:5.2f} s  {line:34} {done.returncode}  {first.decode()[:60].strip()}")
        failed |= done.returncode != code or b"Traceback" in done.stderr
    drawn, code, seconds = _app(file, home, environment)
    print(f"  {seconds:5.2f} s  {'app, first picture':34} {code}  {'drawn' if drawn else 'EMPTY'}")
    written = [path.name for path in home.iterdir()]
    print(f"           written to the current folder: {written or 'nothing'}")
    return int(failed or not drawn or code != 0 or bool(written))


def _app(file: Path, home: Path, environment: dict[str, str]) -> tuple[bool, int, float]:
    """Open the app in a terminal of 120 columns, leave it with q; drawn?, exit code, seconds."""
    before = time.monotonic()
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(home)
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        os.execve(file, [str(file), "--demo", "hgx-h100-8"], environment)
    seen, drawn = b"", 0.0
    while time.monotonic() < before + PATIENCE_SECONDS:
        if select.select([terminal], [], [], 0.5)[0]:
            try:
                seen += os.read(terminal, 65536)
            except OSError:
                break
        if DRAWN in seen and not drawn:
            drawn = time.monotonic() - before
        if drawn and time.monotonic() > before + drawn + 2:
            os.write(terminal, b"q")
    else:
        os.kill(child, signal.SIGKILL)
    return bool(drawn), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), drawn


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


if __name__ == "__main__":
    sys.exit(main())

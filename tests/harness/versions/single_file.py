"""Tries gputop.pex on every Python there is.

`python -m tests.harness.versions.single_file gputop.pex` starts it. Each runs without a network,
with a home and a current folder that cannot be written, and finds nothing but itself on PATH; that
takes root or user namespaces. Prints what each start takes and, behind it, what the same start
takes again: the first compiles what no start before it needed. At the end the folder where it
unpacked is write-protected too, as a home that another node wrote. Ends with 1 if something fails.
"""

from __future__ import annotations

import argparse
import fcntl
import json
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
import zipfile
from pathlib import Path

from tests.harness.versions import pythons
from tests.support.places import ROOT

ALONE = ("unshare", "--map-root-user", "--net", "--mount")
"""A network and mounts of its own for one process."""
TOOLS = (
    "basename", "chmod", "env", "id", "ldd", "mkdir", "mv", "readlink", "sh", "uname", "python",
)  # fmt: skip
COMMANDS = {
    "--version": 0,
    "topo --demo hgx-h100-8": 0,
    "check --quick --demo hgx-h100-8": 0,
    "check --quick --demo sick-h100-8": 1,
}
"""What is asked, and its exit code."""
MACHINES = ("aarch64", "x86-64")
DRAWN, PATIENCE_SECONDS = b"GPU7", 60.0


def main() -> int:
    """Try the file on all Pythons, each in a place of its own."""
    parser = argparse.ArgumentParser(prog="python -m tests.harness.versions.single_file")
    parser.add_argument("file", type=Path)
    parser.add_argument("--inside", type=Path, metavar="PYTHON", help=argparse.SUPPRESS)
    given = parser.parse_args()
    file = given.file.resolve()
    if given.inside is not None:
        return _inside(file, given.inside)
    failed = _wheels(file)
    for version, python in sorted(pythons.found().items()):
        print(f"Python {'.'.join(map(str, version))}, no network, read-only home", flush=True)
        again = [sys.executable, "-m", "tests.harness.versions.single_file", str(file), "--inside"]
        done = subprocess.run([*ALONE, *again, str(python.resolve())], cwd=ROOT, check=False)
        failed |= done.returncode
    return failed


def _wheels(file: Path) -> int:
    """Print the compiled wheels inside by name; 1 if a machine lacks one that the other has."""
    with zipfile.ZipFile(file) as archive:
        names = json.loads(archive.read("PEX-INFO"))["distributions"]
    found: dict[str, list[str]] = {}
    for name in names:
        library, version, *_, python, _, machine = name.removesuffix(".whl").split("-")
        if machine != "any":
            key = MACHINES[0] if MACHINES[0] in machine else MACHINES[1]
            found.setdefault(key, []).append(f"{library} {version} {python}")
    for machine in MACHINES:
        print(f"{machine}: {', '.join(sorted(found.get(machine, ())))}")
    aarch64, x86 = (set(found.get(machine, ())) for machine in MACHINES)
    return int(not x86 or aarch64 != x86)


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
    _write_protect(home)
    environment = {
        "HOME": str(home), "PATH": str(tools), "TMPDIR": str(place / "tmp"),
        "LANG": "C.UTF-8", "TERM": "xterm-256color",
    }  # fmt: skip
    failed = 0
    for line, code in COMMANDS.items():
        took = []
        for _ in range(2):
            before = time.monotonic()
            done = subprocess.run(
                [file, *line.split()], cwd=home, env=environment, capture_output=True, check=False
            )
            took.append(time.monotonic() - before)
            failed |= done.returncode != code or b"Traceback" in done.stderr
        first = (done.stdout.splitlines() or done.stderr.splitlines() or [b""])[0].decode()
        print(f"  {_seconds(took)}  {line:32} {done.returncode}  {first[:60].strip()}")
    took = []
    for _ in range(2):
        drawn, code, seconds = _app(file, home, environment)
        took.append(seconds)
        failed |= not drawn or code != 0
    print(f"  {_seconds(took)}  {'app, first picture':32} {code}  {'drawn' if drawn else 'EMPTY'}")
    _write_protect(place / "tmp")
    again = [str(file), "topo", "--demo", "hgx-h100-8"]
    done = subprocess.run(again, cwd=home, env=environment, capture_output=True, check=False)
    failed |= int(done.returncode != 0 or bool(done.stderr))
    print(f"  where it unpacked cannot be written any more: {done.returncode}")
    written = [path.name for path in home.iterdir()]
    print(f"           written to the current folder: {written or 'nothing'}")
    return int(failed or bool(written))


def _seconds(took: list[float]) -> str:
    return " ".join(f"{seconds:5.2f} s" for seconds in took)


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


def _write_protect(folder: Path) -> None:
    _mount("--bind", str(folder), str(folder))
    _mount("-o", "remount,bind,ro", str(folder))


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


if __name__ == "__main__":
    sys.exit(main())

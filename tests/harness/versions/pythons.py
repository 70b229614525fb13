"""Other Pythons on this machine, and an environment of each with what the tests need."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from importlib.metadata import distributions
from pathlib import Path

from packaging.specifiers import SpecifierSet

from gputop.topology.toml import tomllib
from tests.support.places import ROOT

OLDEST, MIDDLE = (3, 10), (3, 12)
"""The oldest Python that gputop runs on, and the one of Ubuntu 24.04."""
KEPT = ROOT / ".pytest_cache" / "pythons"
"""Environments, each made once."""
NOT_NEEDED = re.compile(r"(torch|mypy|pip|ruff|setuptools|types-.*)\b")
"""Of the extra `dev`: what checks code, and what has no wheel for every Python."""
_NUMBERED = re.compile(r"3\.(\d+)")
_PROBE = "import sys; print(*sys.version_info[:2], sys.version_info.releaselevel, sys.executable)"


class NoEnvironment(Exception):  # noqa: N818 - a reason to skip
    """Why the tests cannot run under a Python, in one line."""


def found() -> dict[tuple[int, int], Path]:
    """Released Pythons of this machine by their version: on PATH, of pyenv and of uv."""
    home = Path.home()
    folders = [
        *(Path(folder) for folder in os.get_exec_path()),
        *sorted(Path(os.environ.get("PYENV_ROOT", home / ".pyenv")).glob("versions/*/bin")),
        *sorted((home / ".local/share/uv/python").glob("cpython-*/bin")),
    ]
    pythons: dict[tuple[int, int], Path] = {}
    for folder in folders:
        for path in sorted(folder.glob("python3.*")):
            named = _NUMBERED.fullmatch(path.name.removeprefix("python"))
            version = (3, int(named[1])) if named else (0, 0)
            if version >= OLDEST and version not in pythons:
                real = _answering(path, version)
                if real is not None:
                    pythons[version] = real
    return pythons


def newest(pythons: dict[tuple[int, int], Path]) -> tuple[int, int]:
    """The newest version there is, and at least the one behind the middle one."""
    return max((*pythons, (MIDDLE[0], MIDDLE[1] + 1)))


def requirements() -> list[str]:
    """What the tests need beside Python."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extra = project["optional-dependencies"]["dev"]
    return [*project["dependencies"], *(line for line in extra if not NOT_NEEDED.match(line))]


def environment(python: Path) -> Path:
    """The Python of an environment that has them; made where it is not there yet."""
    lines = requirements()
    mark = hashlib.sha256("\n".join([str(python.resolve()), *lines]).encode()).hexdigest()[:12]
    folder = KEPT / f"{python.name}-{mark}"
    if not folder.exists():
        made = KEPT / f"{folder.name}.{os.getpid()}"
        try:
            _run(str(python), "-m", "venv", "--without-pip", str(made))
            share(python.name.removeprefix("python"), made / f"lib/{python.name}/site-packages")
            pip = (sys.executable, "-m", "pip", "--python", str(made / "bin" / "python"))
            _run(*pip, "install", "--quiet", "--no-compile", "--retries", "1", *lines)
            made.rename(folder)
        except BaseException:
            shutil.rmtree(made, ignore_errors=True)
            raise
    return folder / "bin" / "python"


def share(version: str, packages: Path) -> None:
    """Put there what our own environment holds and what is the same for this Python.

    That is what has no compiled part and takes this version of Python. pip adds what is missing,
    which takes half the time of all.
    """
    ours = Path(sysconfig.get_path("purelib"))
    for found in distributions(path=[str(ours)]):
        wheel = found.read_text("WHEEL") or ""
        takes = SpecifierSet(str(found.metadata.json.get("requires_python", "")))
        files = found.files or ()
        if "-none-any" not in wheel or version not in takes or found.read_text("direct_url.json"):
            continue
        for file in files:
            if ".." not in file.parts and "__pycache__" not in file.parts:
                (packages / file).parent.mkdir(parents=True, exist_ok=True)
                _link(ours / file, packages / file)


def run_tests(python: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run tests under the Python of an environment, in the checkout.

    The Python of the gate comes first on PATH: there gputop finds the torch that probes need.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=ROOT, env={**kept, "PATH": path}, check=False)


def _answering(path: Path, version: tuple[int, int]) -> Path | None:
    """What runs there, if it is what the name says, and no alpha and no beta.

    pyenv puts a script in its place, which needs the PATH.
    """
    done = subprocess.run(
        [path, "-I", "-S", "-c", _PROBE], capture_output=True, text=True, check=False
    )
    said = done.stdout.strip().split(" ", 3)
    if said[:3] != [*map(str, version), "final"]:
        return None
    return Path(said[3]) if said[3:] else path


def _link(origin: Path, target: Path) -> None:
    try:
        os.link(origin, target)
    except OSError:  # another file system
        shutil.copy2(origin, target)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise NoEnvironment(lines[-1] if lines else f"exit code {done.returncode}: {command[0]}")

"""Where gputop.pex looks for what it unpacked earlier, and what it says where it cannot unpack."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.places import ROOT

UNPACK = ROOT / "recipes" / "single-file" / "unpack.sh"
TOOLS = ("basename", "chmod", "id", "mkdir", "mv", "readlink", "uname")
STARTED = (
    '#!/bin/sh\necho "$@"\necho "${VIRTUAL_ENV:-none}, ${PEX_ROOT:-no root}, ${PEX:-no file}"\n'
)


def lay_out(unpacked: Path, target: Path, name: str = "one", machine: str = "") -> Path:
    """What pex leaves there for a Python; gives its folder."""
    folder = unpacked / name
    machine = machine or platform.machine()
    library = folder / f"lib/python3.99/site-packages/msgspec/_core.cp-{machine}-linux-gnu.so"
    library.parent.mkdir(parents=True)
    library.touch()
    (folder / "bin").mkdir()
    (folder / "bin" / "python3.99").symlink_to(target)
    program(folder / "bin" / "python", STARTED)
    return folder


def program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def start(folder: Path, unpacked: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Start the file with two arguments; it finds only what lies in `folder`/bin."""
    tools = folder / "bin"
    tools.mkdir(exist_ok=True)
    for name in TOOLS:
        (tools / name).symlink_to(str(shutil.which(name)))
    return subprocess.run(
        [str(shutil.which("sh")), "-euc", '. "$1"; gputop_start "$2" topo "--demo=a b"', "file",
         str(UNPACK), str(unpacked)],
        env={"PATH": str(tools), "HOME": "/proc/none", "TMPDIR": "/proc/none", **variables},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "machine", "python", "taken"),
    [
        ("one", "", "python3.99", True),
        ("one", "another", "python3.99", False),
        ("one.lck.work", "", "python3.99", False),
        ("one", "", "python3.98", False),
        ("one", "", None, False),
    ],
    ids=["fits", "of another machine", "not complete", "Python replaced", "Python gone"],
)
def test_a_start_takes_what_was_unpacked_for_a_python_of_this_node(
    tmp_path: Path, name: str, machine: str, python: str | None, taken: bool
) -> None:
    target = tmp_path / (python or "gone")
    if python:
        target.symlink_to(sys.executable)
    unpacked = tmp_path / "all of this file"
    folder = lay_out(unpacked, target, name, machine)
    done = start(tmp_path, unpacked, PEX_ROOT=str(tmp_path), VIRTUAL_ENV="/active")
    if taken:
        first, second = done.stdout.splitlines()
        assert first == f"-I {folder}/bin/gputop topo --demo=a b"
        assert second == f"/active, {tmp_path}, file"
    else:
        assert done.returncode == 70
        assert done.stderr == "gputop: no Python 3.10 to 3.15 on PATH\n"


def test_a_folder_that_nobody_named_is_told_to_nobody(tmp_path: Path) -> None:
    (tmp_path / "python3.99").symlink_to(sys.executable)
    folder = tmp_path / "home" / "gputop-pex" / "venvs"
    lay_out(folder, tmp_path / "python3.99")
    done = start(tmp_path, folder, XDG_CACHE_HOME=str(tmp_path / "home"))
    assert done.stdout.splitlines()[1] == "none, no root, file", done.stderr


def test_the_first_start_unpacks_and_goes_on(tmp_path: Path) -> None:
    (tmp_path / "python3.99").symlink_to(sys.executable)
    ready = lay_out(tmp_path / "ready", tmp_path / "python3.99")
    unpacked = tmp_path / "root" / "all of this file"
    (tmp_path / "bin").mkdir()
    program(
        tmp_path / "bin" / "python3.10",
        f'#!/bin/sh\n[ "$1" = -c ] && exit\necho "of pex $1 $PEX_INTERPRETER" >&2\n'
        f'mkdir -p "{unpacked}" && mv "{ready}" "{unpacked}"\n',
    )
    done = start(tmp_path, unpacked, PEX_ROOT=str(tmp_path / "root"))
    assert done.stdout.startswith(f"-I {unpacked}/one/bin/gputop topo")
    assert done.stderr == f"gputop: unpacking to {tmp_path}/root, once\n"


@pytest.mark.parametrize("code", [1, 0], ids=["fails", "leaves nothing"])
def test_what_stops_unpacking_is_one_line(tmp_path: Path, code: int) -> None:
    (tmp_path / "bin").mkdir()
    said = "Traceback (most recent call last):\nOSError: [Errno 28] No space left on device"
    body = f"[ \"$1\" = -c ] && exit\necho '{said}' >&2\nexit {code}"
    program(tmp_path / "bin" / "python3.10", f"#!/bin/sh\n{body}\n")
    done = start(tmp_path, tmp_path / "none", PEX_ROOT=str(tmp_path / "root"))
    assert (done.returncode, done.stdout) == (70, "")
    assert done.stderr.splitlines()[1:] == [
        "gputop: cannot unpack: OSError: [Errno 28] No space left on device",
        "gputop: PEX_ROOT may name another folder",
    ]


@pytest.mark.parametrize("root", ["/proc/none", "/etc/passwd"], ids=["not there", "a file"])
def test_a_root_that_cannot_be_written_is_named(tmp_path: Path, root: str) -> None:
    done = start(tmp_path, tmp_path / "none", PEX_ROOT=root)
    assert (done.returncode, done.stdout) == (70, "")
    assert done.stderr == f"gputop: PEX_ROOT names a folder that cannot be written: {root}\n"


@pytest.mark.parametrize("name", ["XDG_CACHE_HOME", "HOME", "TMPDIR"])
def test_nothing_is_unpacked_into_the_current_folder(tmp_path: Path, name: str) -> None:
    here, other = tmp_path / "here", tmp_path / "other"
    here.mkdir()
    other.mkdir()
    variables = {"HOME": "/proc/none", "TMPDIR": str(other), name: "relative"}
    subprocess.run(
        ["sh", "-euc", '. "$1"', "sh", UNPACK],
        cwd=here,
        env={"PATH": os.environ["PATH"], **variables},
        check=True,
    )
    assert os.listdir(here) == []


def test_starts_at_the_same_time_find_the_same_place(tmp_path: Path) -> None:
    script = '. "$1"; echo "$PEX_ROOT"'
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    environment.pop("PEX_ROOT", None)
    started = [
        subprocess.Popen(
            ["sh", "-euc", script, "sh", UNPACK], env=environment, stdout=subprocess.PIPE, text=True
        )
        for _ in range(24)
    ]
    assert {each.communicate()[0] for each in started} == {f"{tmp_path}/gputop-pex\n"}
    assert os.listdir(tmp_path / "gputop-pex") == ["usable"]


@pytest.mark.parametrize(
    ("there", "chosen"),
    [
        (("python3.10", "python3.12"), "python3.12"),
        (("python3.10", "python3"), "python3"),
        (("python3.10", "python"), "python"),
        (("python3.10",), None),
        ((), None),
    ],
    ids=["the next one", "the one without a number", "the shortest name", "none that runs", "none"],
)
def test_a_python_that_is_only_a_name_does_not_unpack(
    tmp_path: Path, there: tuple[str, ...], chosen: str | None
) -> None:
    for name in there:
        works = name != "python3.10"
        body = f'exec {sys.executable} "$@"' if works else f"echo {name}: not found >&2; exit 127"
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    script = '. "$1"; gputop_python; echo "$found"'
    done = subprocess.run(
        [str(shutil.which("sh")), "-euc", script, "sh", UNPACK],
        env={"PATH": str(tmp_path), "PEX_ROOT": "/kept/here"},
        capture_output=True,
        text=True,
        check=False,
    )
    if chosen is None:
        assert (done.returncode, done.stdout) == (70, "")
        assert done.stderr == "gputop: no Python 3.10 to 3.15 on PATH\n"
    else:
        assert done.stdout.strip() == str(tmp_path / chosen)

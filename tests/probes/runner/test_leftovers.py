"""What a worker leaves behind goes, and nothing of anybody else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from gputop.probes.runner import leftovers

HOLD = """
import mmap, os, sys
for number, path in enumerate(sys.argv[1:]):
    descriptor = os.open(path, os.O_RDWR)
    if number % 2:
        kept = mmap.mmap(descriptor, 4096)
        os.close(descriptor)
print(flush=True)
sys.stdin.read()
"""


def test_only_new_files_that_nobody_holds_go(tmp_path: Path) -> None:
    def make(name: str) -> Path:
        path = tmp_path / name
        path.write_bytes(bytes(4096))
        return path

    make("nccl-older1")
    before = leftovers.shared_files(str(tmp_path))
    held, mapped = make("nccl-held01"), make("nccl-mapped")
    make("nccl-garbag")
    make("sem.other")
    (tmp_path / "nccl-link00").symlink_to(tmp_path / "sem.other")
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(held), str(mapped)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as other:  # fmt: skip
        assert other.stdout is not None
        other.stdout.readline()
        removed = leftovers.remove_shared_files(before, str(tmp_path))
        assert removed == ["nccl-garbag"]
        other.kill()
        other.wait()
    assert leftovers.remove_shared_files(before, str(tmp_path)) == ["nccl-held01", "nccl-mapped"]
    assert {p.name for p in tmp_path.iterdir()} == {"nccl-older1", "sem.other", "nccl-link00"}


def test_a_file_of_an_old_name_that_is_new_goes_too(tmp_path: Path) -> None:
    path = tmp_path / "nccl-abcdef"
    path.write_bytes(b"old")
    before = leftovers.shared_files(str(tmp_path))
    (tmp_path / "keeps-the-inode").write_bytes(b"")
    path.rename(tmp_path / "moved")
    path.write_bytes(b"new")
    assert leftovers.remove_shared_files(before, str(tmp_path)) == ["nccl-abcdef"]


def test_only_a_folder_of_ours_is_removed(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    leftovers.remove_folder(str(theirs))
    assert theirs.is_dir()
    ours = Path(leftovers.folder_path())
    assert not ours.exists()
    made = tmp_path / ours.name
    (made / "below").mkdir(parents=True)
    leftovers.remove_folder(str(made))
    assert not made.exists()
    leftovers.remove_folder(str(made))


def test_a_folder_that_is_there_is_not_taken(tmp_path: Path) -> None:
    """The keeper makes it itself, so nobody else can have put anything there."""
    folder = tmp_path / "gputop-probe-x"
    folder.mkdir()
    (folder / "file").write_text("theirs")
    keeper = Path(leftovers.__file__).parent / "keeper.py"
    command = [sys.executable, "-I", "-S", str(keeper), str(os.getpid()), str(folder), "/bin/true"]
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    assert done.returncode == 126
    assert str(folder) in done.stderr
    assert (folder / "file").exists()

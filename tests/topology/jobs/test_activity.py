"""Two readings of /proc, from a folder that looks like it."""

from pathlib import Path

from gputop.topology.jobs.activity import TICKS, Glance, activity_delta, glance, program, variables
from gputop.topology.sources.files.tree import FolderTree


def process(
    root: Path, pid: int, state: str, user: int, *, name: str = "python3", start: int = 9
) -> None:
    folder = root / "proc" / str(pid)
    folder.mkdir(parents=True, exist_ok=True)
    rest = ["1"] * 10 + [str(user), "0", "0", "0", "20", "0", "3", "0", str(start), "99", "1000"]
    (folder / "stat").write_text(f"{pid} ({name}) {state} {' '.join(rest)} 0 0\n")


def test_state_time_and_memory_between_two_readings(tmp_path: Path) -> None:
    tree, now = FolderTree(tmp_path), iter([0.0, 0.0, 0.0, 0.5, 0.5])
    process(tmp_path, 1, "R", 100)
    process(tmp_path, 2, "T", 100, name="a) R 1 (b")
    process(tmp_path, 3, "R", 100)
    first = glance(tree, [1, 2, 3, 4], lambda: next(now, 0.0))
    process(tmp_path, 1, "R", 100 + TICKS // 2)
    process(tmp_path, 3, "R", 500, start=10)
    later = iter([0.5] * 9)
    found = activity_delta(tree, first, glance(tree, [1, 2, 3, 4], lambda: next(later)))
    assert found[1].user_cores == 1.0
    assert (found[2].stayed, found[2].user_cores) == ("stopped", 0.0)
    assert 3 not in found, "its number was given to another process"


def test_the_first_thread_has_its_part_of_the_time(tmp_path: Path) -> None:
    tree = FolderTree(tmp_path)

    def read(at: float, whole: int, own: int | None) -> dict[int, Glance]:
        process(tmp_path, 1, "R", whole)
        thread = tmp_path / "proc/1/task/1"
        if own is not None:
            process(tmp_path, 1, "R", own)
            thread.mkdir(parents=True, exist_ok=True)
            (tmp_path / "proc/1/stat").rename(thread / "stat")
            process(tmp_path, 1, "R", whole)
        return glance(tree, [1], lambda: at)

    assert activity_delta(tree, read(0.0, 100, None), read(1.0, 200, None))[1].first_cores is None
    before = read(0.0, 100, 60)
    found = activity_delta(tree, before, read(1.0, 100 + TICKS, 60 + TICKS // 4))[1]
    assert (found.cores, found.first_cores) == (1.0, 0.25)


def test_readings_at_the_same_moment_give_no_share(tmp_path: Path) -> None:
    process(tmp_path, 1, "D", 100)
    tree = FolderTree(tmp_path)
    once = glance(tree, [1], lambda: 1.0)
    assert activity_delta(tree, once, once)[1].user_cores is None


def test_broken_lines_are_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "proc" / "1"
    folder.mkdir(parents=True)
    for text in ("", "1 (x", "1 (x) R", "1 (x) R " + "-1 " * 40, "1 (x) R " + "9" * 400):
        (folder / "stat").write_text(text)
        assert glance(FolderTree(tmp_path), [1]) == {}


def test_only_the_script_is_kept_of_a_command_line(tmp_path: Path) -> None:
    folder = tmp_path / "proc" / "1"
    folder.mkdir(parents=True)
    for line, found in (
        ("/usr/bin/python3.12\0-u\0/srv/train.py\0--token\0secret\0", "train.py"),
        ("python\0-m\0torch.distributed.run\0x.py\0", "torch.distributed.run"),
        ("python\0-c\0import secrets\0", None),
        ("./nccl-tests\0-b\0secret\0", None),
        ("", None),
    ):
        (folder / "cmdline").write_text(line)
        assert program(FolderTree(tmp_path), 1) == found


def test_only_listed_variables_are_kept(tmp_path: Path) -> None:
    folder = tmp_path / "proc" / "1"
    folder.mkdir(parents=True)
    (folder / "environ").write_text("NCCL_RAS_ADDR=localhost:9\0SECRET=x\0OMP_NUM_THREADS=4\0")
    assert variables(FolderTree(tmp_path), 1) == (
        ("NCCL_RAS_ADDR", "localhost:9"),
        ("OMP_NUM_THREADS", "4"),
    )
    assert variables(FolderTree(tmp_path), 2) is None


def test_periods_in_which_a_cgroup_stopped_a_process_are_counted(tmp_path: Path) -> None:
    process(tmp_path, 1, "R", 100)
    (tmp_path / "proc/1/cgroup").write_text("0::/pod/rank\n")
    outer = tmp_path / "sys/fs/cgroup/pod"
    (outer / "rank").mkdir(parents=True)
    (outer / "cpu.max").write_text("200000 100000\n")
    (outer / "rank/cpu.max").write_text("max 100000\n")
    tree = FolderTree(tmp_path)

    def look(at: float, periods: int, stopped: int) -> dict[int, Glance]:
        text = f"usage_usec 5\nnr_periods {periods}\nnr_throttled {stopped}\nthrottled_usec 9\n"
        (outer / "cpu.stat").write_text(text)
        return glance(tree, [1], lambda: at, {1})

    ((_, counts),) = activity_delta(tree, look(0.0, 10, 2), look(0.5, 15, 6))[1].stopped_periods
    assert counts == (5, 4)
    assert (
        activity_delta(tree, look(0.0, 1, 1), glance(tree, [1], lambda: 1.0))[1].stopped_periods
        == ()
    )

"""A small process between the app and a worker, so that nothing outlives either.

Run by path: `keeper.py APP_PID FOLDER COMMAND...`. It creates FOLDER (unless it is "-") as a
private folder before the command starts, and removes it at the end together with forgotten files in
/dev/shm. It can always act: standard library only, one thread, no foreign C code, asleep in
sigwait(). What happens when a process ends:

- the app (even by kill -9): the kernel sends SIGTERM here, which kills the worker and all below it.
- the worker: its remaining children are killed; its end becomes this process's exit code.
- this process (kill -9): the kernel kills the worker, and the app kills the process group.

"All below it" includes children in their own sessions, because orphans are adopted
(PR_SET_CHILD_SUBREAPER).
"""

import contextlib
import ctypes
import importlib.util
import os
import signal
import sys
import time
import types
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LEFT_BEHIND = 125
_CANNOT_START = 126
_POLL_SECONDS = 0.25
_KILL_SECONDS = 1.5
_KILL_RANKS_SECONDS = 6.0
"""With a folder there is a process on every GPU, and destroying their contexts takes longer."""
_SIGNALS = {signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM}


def main(app_pid: int, folder: str, command: "list[str]") -> int:
    """Start the command, wait for its end or that of the app, and clean up; its exit code."""
    if folder == "-":
        return keep(app_pid, command, _KILL_SECONDS)
    leftovers = _leftovers()
    before = leftovers.shared_files()
    # Block signals from here on, so that none ends this process before it has cleaned up.
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        os.mkdir(folder, 0o700)
    except OSError as error:
        os.write(2, f"{folder}: {error.strerror}\n".encode())
        return _CANNOT_START
    try:
        return keep(app_pid, command, _KILL_RANKS_SECONDS)
    finally:
        leftovers.remove_folder(folder)
        leftovers.remove_shared_files(before)


def keep(app_pid: int, command: "list[str]", kill_seconds: float) -> int:
    """Run the command without a folder."""
    libc = ctypes.CDLL(None) if sys.platform.startswith("linux") else None
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    if libc is not None:
        libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    else:
        signal.setitimer(signal.ITIMER_REAL, _POLL_SECONDS, _POLL_SECONDS)
    if os.getppid() != app_pid:
        return 1
    keeper_pid = os.getpid()
    worker_pid = os.fork()
    if worker_pid == 0:
        _become(command, keeper_pid, libc)
    _let_go_of_pipes()
    status = _wait(worker_pid, app_pid)
    if not _kill_descendants(kill_seconds):
        return _LEFT_BEHIND
    if status is None:
        return 128 + signal.SIGTERM
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _become(command: "list[str]", keeper_pid: int, libc: "ctypes.CDLL | None") -> None:
    """Tie the child to the keeper and run the command in it; never returns."""
    try:
        if libc is not None:
            libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != keeper_pid:
            os._exit(1)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        os.execv(command[0], command)
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(_CANNOT_START)


def _let_go_of_pipes() -> None:
    """Release the app's pipes, so that they close when the worker ends."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)


def _wait(worker_pid: int, app_pid: int) -> "int | None":
    """The wait status of the worker, or None if it must be ended."""
    while True:
        number = signal.sigwait(_SIGNALS)
        if number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP) or os.getppid() != app_pid:
            return None
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return None
            if pid == worker_pid:
                return status
            if pid == 0:
                break


def _kill_descendants(kill_seconds: float) -> bool:
    """Kill all children, also newly adopted ones, until none is left; False if some remain.

    The time is limited: a process in a stuck driver call dies only when the call returns.
    """
    give_up = time.monotonic() + kill_seconds
    while time.monotonic() < give_up:
        for pid in _children():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0] != 0:
                pass
        except ChildProcessError:
            return True
        time.sleep(0.005)
    return False


def _children() -> "set[int]":
    """Our children, with adopted ones."""
    try:
        text = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    except OSError:
        # This system lists no children: kill the whole group with this process.
        os.killpg(0, signal.SIGKILL)
        raise
    return {int(word) for word in text.split()}


def _leftovers() -> "types.ModuleType":
    """Load the module beside this one; -I takes the script's folder off sys.path."""
    path = Path(__file__).resolve().parent / "leftovers.py"
    spec = importlib.util.spec_from_file_location("leftovers", path)
    if spec is None or spec.loader is None:
        raise ImportError(path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2], sys.argv[3:]))

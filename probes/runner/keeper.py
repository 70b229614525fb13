"""A small process between the app and a worker, so that nothing outlives either.

Run by path: `keeper.py APP_PID FOLDER COMMAND...`. A FOLDER other than "-" is a path that it makes,
private, before the command starts; at the end it goes, and so do forgotten files in /dev/shm.
Standard library only, one thread, no C code of others, asleep in sigwait(): it can always act. Who
ends, and what then goes:

- the app (kill -9 included): the kernel sends SIGTERM here; the worker and all below it are killed.
- the worker: what it left running is killed; its end is passed on as this process's exit code.
- this process (kill -9): the kernel kills the worker, the app kills the process group.

"All below it" is meant literally: orphans are adopted (PR_SET_CHILD_SUBREAPER), so a child that
went into a session of its own is found as well.
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
"""With a folder there is a process on every GPU, and tearing their contexts down takes longer."""
_SIGNALS = {signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM}


def main(app_pid: int, folder: str, command: "list[str]") -> int:
    """Start the command, wait for it or for the app's end, clear up; the command's exit code."""
    if folder == "-":
        return keep(app_pid, command, _KILL_SECONDS)
    leftovers = _leftovers()
    before = leftovers.shared_files()
    # Signals wait from here on, so that none ends this process before it has cleared up.
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
    """The same without a folder."""
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
    """In the child: tie it to the keeper, then run the command. Never returns."""
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
    """Only the worker holds the app's pipes, so that their end is the worker's end."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)


def _wait(worker_pid: int, app_pid: int) -> "int | None":
    """The worker's wait status, or None when it is to be ended."""
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
    """Kill every child that is or becomes ours until none is left; False if some would not go.

    Bounded: a process inside a stuck driver call dies when that call returns, and not before.
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
    """Our children, adopted ones included."""
    try:
        text = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    except OSError:
        # No list of children on this system: the whole group goes, this process with it.
        os.killpg(0, signal.SIGKILL)
        raise
    return {int(word) for word in text.split()}


def _leftovers() -> "types.ModuleType":
    """The module beside this one; under -I a script's own folder is not searched."""
    path = Path(__file__).resolve().parent / "leftovers.py"
    spec = importlib.util.spec_from_file_location("leftovers", path)
    if spec is None or spec.loader is None:
        raise ImportError(path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2], sys.argv[3:]))

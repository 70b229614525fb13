"""The script for another interpreter: reads requests, runs probes and writes their messages.

Run by path under any Python from 3.9 that has torch. It takes its own folder off sys.path, so that
no module here shadows another one, and loads the package under a private name, so that relative
imports work in a checkout and in site-packages. It keeps a copy of descriptor 1 for messages and
points the original at stderr, so that output of C code (NCCL_DEBUG=INFO) cannot break the protocol.
"""

import importlib
import importlib.util
import os
import sys

_PACKAGE = "gputop_probes"


def _load_package(folder: str) -> None:
    """Import this folder as the package `gputop_probes`."""
    here = os.path.realpath(folder)
    sys.path[:] = [p for p in sys.path if os.path.realpath(p or os.getcwd()) != here]
    spec = importlib.util.spec_from_file_location(
        _PACKAGE, os.path.join(here, "__init__.py"), submodule_search_locations=[here]
    )
    if spec is None or spec.loader is None:
        raise ImportError(here)
    package = importlib.util.module_from_spec(spec)
    sys.modules[_PACKAGE] = package
    spec.loader.exec_module(package)


def main(arguments: "list[str]") -> int:
    """Answer requests; 0: the last probe reached its end, 1: it did not, 2: a bad request.

    With `--watched` it answers requests until stdin ends or a probe fails, else only one. With
    `--children` it answers each in a child; with `--torch` too, and imports torch at once, and then
    those of its modules that are named. With `--driver` it starts the driver of the GPUs while it
    waits for its first request.
    """
    if sys.version_info < (3, 9):  # noqa: UP036  (it is run by path, under whatever is at hand)
        sys.stderr.write("this Python is too old: 3.9 is needed\n")
        return 3
    reply_fd = os.dup(1)
    os.dup2(2, 1)
    os.set_inheritable(reply_fd, False)
    _load_package(os.path.dirname(os.path.abspath(__file__)))
    answering = importlib.import_module(_PACKAGE + ".answering")
    lifeline = importlib.import_module(_PACKAGE + ".runner.lifeline")
    lifeline.die_with_parent(os.getppid())
    status = 0
    with os.fdopen(reply_fd, "wb", buffering=0) as replies:
        if "--watched" not in arguments:
            line = sys.stdin.buffer.readline(answering.REQUEST_LIMIT_BYTES)
            return int(answering.answer(line, replies))
        if "--torch" in arguments or "--children" in arguments:
            torch, parts = "--torch" in arguments, [a for a in arguments if a[:2] != "--"]
            return int(answering.answer_in_children(sys.stdin.fileno(), replies, torch, parts))
        if "--driver" in arguments:
            importlib.import_module(_PACKAGE + ".devices.opening").wake_driver()
        requests = lifeline.Requests(sys.stdin.buffer, answering.REQUEST_LIMIT_BYTES)
        while status == 0:
            line = requests.next()
            if line is None:
                break
            status = int(answering.answer(line, replies))
        return status


if __name__ == "__main__":
    status = main(sys.argv[1:])
    sys.stderr.flush()
    # Not sys.exit: destroying torch and its contexts takes up to a second and may hang; the
    # kernel frees GPU memory when a process ends.
    os._exit(status)

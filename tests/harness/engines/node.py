"""What stands behind the command `gputop` on a node: the real program on a machine with GPUs.

`python node.py FOLDER ARGUMENTS`. The machine is one of tests/support/faults: its driver answers
through the real binding, readers, parsers and rules. FOLDER says what is wrong with which node.
"""

from __future__ import annotations

import copy
import functools
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

from tests.harness.engines import cases
from tests.support.faults.plan import Fault

PROFILE = "h100-8"
LOST = 15
"""NVML_ERROR_GPU_IS_LOST."""
AHEAD_SECONDS = 600.0
FAULTS = {
    cases.HANGS: Fault(function="nvmlDeviceGetNvLinkState", blocks=True),
    cases.BROKEN: Fault(function="*", gpus=(4,), code=LOST),
}


def main() -> None:
    """Be the node, then the program."""
    folder = Path(sys.argv[1])
    name = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
    place = folder / "nodes" / name
    kind = place.read_text().strip() if place.is_file() else ""
    if kind == cases.STUCK:
        while True:
            time.sleep(60)
    if kind == cases.TWIN:
        os.environ["GPUTOP_NODE"] = cases.NODES[cases.NODES.index(name) - 1]
    if kind == cases.CLOCK:
        real = time.time
        time.time = lambda: real() + AHEAD_SECONDS
    if kind in (cases.KILLED, cases.CUT):
        _die_while_writing(whole=kind == cases.CUT)
    _machine(name, kind)
    _version(kind)
    from gputop.__main__ import main as program

    sys.argv[:2] = ["gputop"]
    program()


def _machine(name: str, kind: str) -> None:
    """Put the machine in the place of this one's sources."""
    from gputop.topology.sources import live
    from tests.support.faults import machine, profiles

    number = cases.NODES.index(name) if name in cases.NODES else len(cases.NODES)
    answers = copy.deepcopy(profiles.PROFILES[PROFILE]())
    _own(answers, name, number)
    if kind == cases.SLOW:
        for link in answers["nvml"]["devices"][3]["links"][4:6]:
            link["state"] = 0
            link["fields"]["NVML_FI_DEV_NVLINK_GET_STATE"] = {"value": 0}
    profiles.PROFILES[PROFILE] = lambda: answers
    faults = [FAULTS[kind]] if kind in FAULTS else []
    feed = functools.partial(live.LiveFeed, machine.sources(PROFILE, faults))
    live.LiveFeed = feed  # type: ignore[assignment,misc]


def _own(answers: dict[str, Any], name: str, number: int) -> None:
    """Give the machine what no two machines share."""
    for place, device in enumerate(answers["nvml"]["devices"]):
        device["nvmlDeviceGetUUID"] = f"GPU-e0000000-0000-4000-8000-{number:06d}{place:06d}"
        device["nvmlDeviceGetSerial"] = f"{1_650_000_000_000 + number * 100 + place}"
    files = answers["host"]["files"]
    files["proc/sys/kernel/hostname"] = name
    files["proc/sys/kernel/random/boot_id"] = f"e0000000-0000-4000-8000-{number:012d}"


def _version(kind: str) -> None:
    """Write as another version of the program does."""
    import gputop

    if kind in (cases.OTHER, cases.OLD):
        gputop.__version__ = "0.0.1"
    if kind not in (cases.OLD, cases.FUTURE):
        return
    from gputop.answers.check import CheckAnswer

    real = CheckAnswer.document

    def other(answer: CheckAnswer) -> dict[str, Any]:
        found = real(answer)
        if kind == cases.FUTURE:
            return found | {"schema": "gputop.check/2"}
        return {key: value for key, value in found.items() if key != "fleet"}

    CheckAnswer.document = other  # type: ignore[method-assign,assignment]


def _die_while_writing(*, whole: bool) -> None:
    """End as by a power cut when half of the file is written.

    `whole`: a file system that let the name come before the content, as a share does.
    """

    def die(number: int) -> None:
        os.ftruncate(number, os.fstat(number).st_size // 2)
        if not whole:
            os.kill(os.getpid(), signal.SIGKILL)

    def renamed(*given: Any, **named: Any) -> None:
        replace(*given, **named)
        os.kill(os.getpid(), signal.SIGKILL)

    replace = os.replace
    os.fsync = die  # type: ignore[assignment]
    if whole:
        os.replace = renamed


if __name__ == "__main__":
    main()

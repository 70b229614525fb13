"""What systemd, shells and containers say: statuses, limits, options, device files."""

from __future__ import annotations

import pytest

from gputop.topology.diagnosis.symptoms.explain import explain, known_signs
from gputop.topology.diagnosis.symptoms.log import DEBUG, examine
from gputop.topology.logs.reading.read import read_log

FORMS = {
    "service-user": (
        "Mar 02 09:00:01 b1 systemd[1]: node-metrics.service: Main process exited, code=exited, "
        "status=216/GROUP",
        "Mar 02 09:00:01 b1 systemd[77]: a.service: Failed to determine user credentials: No such "
        "process",
    ),
    "service-program": (
        "    Process: 812 ExecStart=/opt/x/bin/agent (code=exited, status=203/EXEC)",
        "b1 systemd[9]: fm.service: Failed at step EXEC spawning /usr/bin/fm: Permission denied",
    ),
    "service-folder": ("Main PID: 9 (code=exited, status=200/CHDIR)",),
    "service-sandbox": ("a.service: Main process exited, code=exited, status=226/NAMESPACE",),
    "service-masked": (
        "     Loaded: masked (Reason: Unit dcgm.service is masked.)",
        "Failed to restart x.service: Unit x.service is masked.",
    ),
    "service-absent": ("Unit nvidia-fabricmanager.service could not be found.",),
    "files-limit": (
        "worker: accept failed, errno=24",
        "fatal: failed to create epoll fd: EMFILE",
    ),
    "option-for-program": (
        "bash: --rocm: command not found",
        'exec: "--gpus": executable file not found in $PATH: unknown',
    ),
    "device-file-missing": (
        "open /dev/kfd: no such file or directory",
        "failed to add device: stat /dev/nvidia-modeset: no such file or directory",
    ),
    "driver-mismatch": (
        "E stream_executor/cuda/cuda_diagnostics.cc:313] kernel version 550.54.15 does not match "
        "DSO version 550.90.7 -- cannot find working devices in this configuration",
    ),
}
INNOCENT = (
    "systemd[1]: nvidia-persistenced.service: Main process exited, code=exited, status=0/SUCCESS",
    "docker run --gpus all image python train.py --nv",
    "crw-rw-rw- 1 root root 195, 0 Jan 5 10:00 /dev/nvidia0",
    "max open files 65536",
    "epoch 24 errors 0",
    "     Loaded: masked (Reason: Unit sleep.target is masked.)",
    "# raise ulimit if you see EMFILE",
    "ls: cannot access '/dev/kfd': No such file or directory",
)


def found(text: str) -> set[str]:
    lines = [line.encode() for line in text.splitlines()]
    return {one.id for one in explain(read_log(lines, signs=known_signs(), outputs=True))}


@pytest.mark.parametrize("row", FORMS)
def test_every_form_is_found(row: str) -> None:
    for text in FORMS[row]:
        assert row in found(text), text


@pytest.mark.parametrize("text", INNOCENT)
def test_ordinary_lines_accuse_nobody(text: str) -> None:
    assert not found(text) & {*FORMS}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("b1 systemd[1]: x.service: Failed with result 'exit-code'.", "journalctl"),
        ("error: failed to launch widget: bad handle", "from its first line"),
        ("[rank3]: error: failed to launch widget: bad handle", DEBUG),
    ],
)
def test_what_to_fetch_depends_on_who_printed_the_failure(text: str, wanted: str) -> None:
    log = read_log([text.encode()], signs=known_signs(), outputs=True)
    found_there = examine(log, None)
    assert wanted in found_there.next

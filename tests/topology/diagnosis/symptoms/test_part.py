"""What a log says of a node: nothing is refused that speaks of a failure."""

from __future__ import annotations

import io

import pytest

from gputop.answers.log import read_stream
from gputop.topology.diagnosis.symptoms.part import part_of_log
from gputop.topology.diagnosis.symptoms.unproven import UNKNOWN, UNSAID
from gputop.topology.model.severity import CANNOT_TELL, NOTICE

FAILS = "nvidia: the frobnicator could not attach: unknown error"
TIMEOUT = "rdzv_configs     : {'timeout': 900}"


def test_a_failure_in_unknown_words_is_told_and_not_refused() -> None:
    part = part_of_log(f"{TIMEOUT}\n{FAILS}\n".encode(), "said.txt", alone=True)
    assert part is not None
    (found,) = part.symptoms
    assert (found.id, found.severity) == (UNKNOWN, CANNOT_TELL)
    assert FAILS in found.title
    assert [fact.line for fact in found.evidence] == [2]


@pytest.mark.parametrize(
    "text", [TIMEOUT, "We had errors last week. They went away.", "error: cats"]
)
def test_other_text_is_none_of_a_node(text: str) -> None:
    assert part_of_log(f"{text}\n".encode(), "said.txt", alone=True) is None


def test_codes_that_are_handed_up_name_the_part_that_failed() -> None:
    text = "".join(
        f"n1:11:12 [0] NCCL INFO {file} -> 2\n"
        for file in ("misc/socket.cc:564", "bootstrap.cc:270", "init.cc:1303")
    )
    part = part_of_log(text.encode(), "said.txt", alone=True)
    assert part is not None
    (found,) = part.symptoms
    assert found.id == "returned-error"
    assert "connection" in found.candidates[0].cause
    ends = (
        "n1:11:11 [0] misc/socket.cc:533 NCCL WARN socketPollConnect: Connect to 10.0.0.4<56849> "
    )
    named = part_of_log(
        (ends + "returned 113(No route to host)\n" + text).encode(), "a", alone=True
    )
    assert named is not None
    assert "returned-error" not in {one.id for one in named.symptoms if one.severity.counts}


@pytest.mark.parametrize(
    "text",
    [
        "root@gpu-7:~# lspci | grep -c Mellanox\n8",
        "$ cat /sys/module/amdgpu/version\n6.8.5",
        "[ 4021.118803] mce: CPU3: Core temperature is normal",
        "crw-rw-rw- 1 root root 195, 0 Feb  2 08:11 /dev/nvidia0",
        "Device 3 [Radeon RX 7900 XT] PCIe GEN 4@16x",
    ],
)
def test_what_was_copied_off_a_machine_is_answered_at_every_door(text: str) -> None:
    part = part_of_log(f"{text}\n".encode(), "said.txt", alone=True)
    assert part is not None
    assert [(one.id, one.severity) for one in part.symptoms] == [(UNSAID, NOTICE)]
    assert part_of_log(f"{text}\n".encode(), "said.txt", alone=False) is None
    assert read_stream(io.BytesIO(f"{text}\n".encode()), "said.txt").lines


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[ 71.5] pt_main_thread invoked oom-killer: gfp_mask=0xcc0", "rank-out-of-memory"),
        ("crw------- 1 root root 511, 0 Feb  2 08:11 kfd", "kfd-of-root"),
        ("crw-rw---- 1 root root 195, 255 Feb  2 08:11 /dev/nvidiactl", "device-file-of-root"),
        ("crw-rw---- 1 root render 511, 0 Feb  2 08:11 /dev/kfd", UNSAID),
        ("cr-------- 1 root root 508, 1 Feb  2 08:11 nvidia-cap1", UNSAID),
    ],
)
def test_lists_of_device_files_and_killed_processes_are_read(text: str, found: str) -> None:
    part = part_of_log(f"{text}\n".encode(), "said.txt", alone=True)
    assert part is not None
    assert [one.id for one in part.symptoms] == [found]


DESCRIPTION = (
    "# Runner\n\nIt starts `mpirun` with a timeout; see [the launcher](docs/run.md).\n"
    "## Errors\n`NCCL error: unhandled system error` is told as `remote`.\n"
    "Run `xargs -P 8 sh -c 'timeout 90 mpirun -n 1 {} || true'` and read [this](a.md).\n"
    "- `CUDA error: out of memory`: use a smaller batch, says [the guide](b.md).\n"
)


def test_a_description_of_programs_accuses_nobody() -> None:
    part = part_of_log(DESCRIPTION.encode(), "README.md", alone=True)
    assert part is None or not any(one.severity.counts for one in part.symptoms)
    ran = f"{DESCRIPTION}```\n12:10:31 [rank1]: torch.cuda: CUDA error: out of memory\n```\n"
    part = part_of_log(ran.encode(), "issue.md", alone=True)
    assert part is not None
    assert any(one.severity.counts for one in part.symptoms)

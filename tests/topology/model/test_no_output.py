"""What was typed or stands in a program is told from what was printed."""

import pytest

from gputop.topology.model.no_output import is_no_output
from gputop.topology.sources.linux.kernel_lines import said_in

FELL = "NVRM: Xid (PCI:0000:43:00): 79, pid=12, name=python3, GPU has fallen off the bus."


@pytest.mark.parametrize(
    "head",
    [
        "$ echo '",
        "root@n1:/tmp# grep -e '",
        "(env) me@n1:~$ sudo dmesg | grep '",
        "dmesg | grep '",
        "$ ssh n2 dmesg -T | tail -n 99 | grep '",
        "test -e /x || { echo '",
    ],
)
def test_a_command_that_holds_a_fault_is_none(head: str) -> None:
    assert is_no_output(head + FELL)
    assert said_in(head + FELL) is None


@pytest.mark.parametrize(
    "line",
    [
        FELL,
        "root@n1:~# ./all_reduce_perf -g 8",
        "terminate called after throwing an instance of 'c10::Error'",
        "CUDA_CHECK(cudaSetDevice(3)) failed: invalid device ordinal",
        "RuntimeError: raised by rank 3: CUDA error: out of memory",
        "# Using devices",
        'open("/dev/nvidiactl", O_RDWR)          = -1 EPERM (Operation not permitted)',
        "ray.exceptions.ActorDiedError('The actor died: out of memory')",
        "grep: /dev/nvidia0: No such file or directory",
        "-rw-r--r--   1 root root 0 Jan  5 10:00 nvidia",
    ],
)
def test_what_a_program_prints_counts(line: str) -> None:
    assert not is_no_output(line)


def test_the_same_fault_as_output_is_one() -> None:
    assert said_in(FELL) is not None

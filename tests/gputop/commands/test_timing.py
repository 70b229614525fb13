"""Seconds of a core that whole commands take."""

from __future__ import annotations

import resource

import pytest

from tests.support.command import gputop_process
from tests.support.places import RECORDINGS

pytestmark = pytest.mark.timing
TOPOLOGY = str(RECORDINGS / "nccl-topologies/nvswitch_2s_intel.xml")


@pytest.mark.parametrize(
    "arguments",
    [("check", "--quick", "--demo", "hgx-h100-8"), ("explain", "--from", TOPOLOGY)],
    ids=lambda arguments: arguments[0],
)
def test_a_plain_command_takes_less_than_a_second(arguments: tuple[str, ...]) -> None:
    times = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = gputop_process(*arguments)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert done.returncode == 0, done.stdout
        times.append(used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime)
    assert min(times) < 1.0

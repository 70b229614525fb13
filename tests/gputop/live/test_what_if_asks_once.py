"""A prediction that takes longer than a tick is not begun again at every tick."""

from __future__ import annotations

from typing import Any, cast

from gputop.live.host import NodeHost
from gputop.live.what_if import WhatIfController
from tests.support.app import demo_report


class Host:
    """An app whose threads never get to run."""

    report: Any = None
    trouble = ""
    refresher: Any = None
    view: Any = None

    def __init__(self) -> None:
        self.begun = 0

    def say(self, text: str, **rest: Any) -> None:
        raise AssertionError(text)

    def post_message(self, message: Any) -> bool:
        raise AssertionError(message)

    def run_worker(self, work: Any, **rest: Any) -> None:
        self.begun += 1


def test_what_gives_a_pair_p2p_is_asked_for_once() -> None:
    host, report = Host(), demo_report("pcie-l40s-8")
    what_if = WhatIfController(cast(NodeHost, host))
    what_if.shown(report)
    first, second, *_, last = [gpu.address for gpu in report.snapshot.machine.gpus]
    for _ in range(3):
        assert what_if.remedy(first, last) == (False, None)
    assert host.begun == 1
    what_if.remedy(second, last)
    what_if.remedy(first, last)
    assert host.begun == 3

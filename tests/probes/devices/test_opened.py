"""Devices are opened in steps, so that what hangs has a name."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from gputop.probes import catalog
from gputop.probes.devices.opened import open_devices
from gputop.probes.protocol.messages import (
    ASKING,
    IMPORTING,
    Message,
    Progress,
    Request,
)
from gputop.probes.protocol.spec import ProbeStopped


def test_the_driver_is_asked_in_a_step_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """What hangs there is the driver, and no file system."""
    said: list[Message] = []

    def available() -> bool:
        assert said[-1] == Progress(0, 1, ASKING)
        raise ProbeStopped("failed", "seen")

    torch = SimpleNamespace(__version__="2.11", cuda=SimpleNamespace(is_available=available))
    monkeypatch.setitem(sys.modules, "torch", torch)
    with pytest.raises(ProbeStopped, match="seen"):
        open_devices(Request("memory"), catalog.load("memory").SPEC, said.append)
    assert said[0] == Progress(0, 1, IMPORTING)

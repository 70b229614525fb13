"""The chooser of a what-if: usual changes, and any variable by typing."""

from __future__ import annotations

import pytest

from gputop.actions import USUAL, offered
from gputop.app import GpuTop
from gputop.widgets.panels import TypedChoicePanel
from tests.support.app import app_of, demo_report, give, picture, press, rounds


@pytest.mark.parametrize(
    ("typed", "first"),
    [
        ("", "NCCL_P2P_DISABLE=1"),
        ("shm_dis", "NCCL_SHM_DISABLE=1"),
        ("nccl_nthreads", "NCCL_NTHREADS="),
        ("nthreads=256", "NCCL_NTHREADS=256"),
        ("NCCL_ALGO=tree", "NCCL_ALGO=tree"),
        ("MY_OWN=3", "MY_OWN=3"),
        ("no such thing", ""),
    ],
)
async def test_what_is_offered(typed: str, first: str) -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        found = [option for option, _ in offered(app_of(pilot), typed)]
        assert (found or [""])[0] == first
        assert len(found) == len(set(found))
        assert typed or len(found) == len(USUAL)


async def test_a_variable_is_typed_continued_and_tried() -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await give(pilot, demo_report("hgx-h100-8"))
        await press(pilot, "f", *"nthreads")
        panel = pilot.app.screen
        assert isinstance(panel, TypedChoicePanel)
        await press(pilot, "enter")
        assert pilot.app.screen is panel, "its value is still to be typed"
        await press(pilot, *"512", "enter")
        assert app_of(pilot).what_if.tried.wanted == {"NCCL_NTHREADS": "512"}
        await press(pilot, "u", "f", "down", "down", "up", "enter")
        assert app_of(pilot).what_if.tried.wanted == {"NCCL_P2P_LEVEL": "SYS"}


async def test_a_version_is_found_by_its_number() -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await give(pilot, demo_report("hgx-h100-8"))
        app = app_of(pilot)
        assert [option for option, _ in offered(app, "2.30")] == ["NCCL=2.30.7"]
        assert offered(app, "NCCL=new") == []
        await press(pilot, "f", *"2.30", "enter")
        assert app.what_if.tried.wanted == {"NCCL": "2.30.7"}
        await press(pilot, "u", "slash")
        await press(pilot, *"2.29")
        async for _ in rounds(pilot):
            if "NCCL 2.29.7 instead of" in picture(pilot):
                break
        await press(pilot, "enter")
        async for _ in rounds(pilot):
            if app.what_if.holds:
                break
        assert app.what_if.tried.wanted == {"NCCL": "2.29.7"}

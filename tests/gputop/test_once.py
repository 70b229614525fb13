"""`gputop -1` prints what the first lines of Node show, and ends."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from msgspec.structs import replace

from gputop import once
from gputop.app import GpuTop
from gputop.live.jobs_controller import of_demo
from gputop.topology.jobs.asking import JobsReport
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.recorded.feeds import DemoFeed
from gputop.widgets.spans import text_of
from tests.grid import share
from tests.support.app import rounds, text
from tests.support.command import gputop_here


@pytest.mark.parametrize("name", share(["sick-h100-8", "pcie-l40s-8", "mi300x-8"], 2))
async def test_the_lines_are_those_of_node(name: str) -> None:
    done = gputop_here("-1", "--demo", name)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    parts = ["verdict", "use", "cost", "identity"]
    wanted = [line.split()[:6] for line in lines[: len(parts)]]
    async with GpuTop(DemoFeed(name), 3600).run_test(size=(120, 40)) as pilot:
        shown: list[list[str]] = []
        async for _ in rounds(pilot):
            await asyncio.sleep(0.05)  # the threads of a new process have much to import
            said = [text(pilot, f"#{part}").replace("6 details", "") for part in parts]
            shown = [line.split("p measures")[0].split()[:6] for line in said]
            if shown == wanted:
                break
    assert shown == wanted
    assert sum(line.split()[:1] == [str(number)] for line in lines for number in range(8)) >= 6
    assert "60 s" not in done.stdout
    assert len(lines) == 6 + 8


def test_without_a_gpu_it_says_so() -> None:
    done = gputop_here("--once", GPUTOP_FAKE_NVML="absent")
    assert "no GPU to examine" in done.stdout


def test_the_columns_are_those_of_the_settings(tmp_path: Path) -> None:
    folder = tmp_path / "gputop"
    folder.mkdir()
    (folder / "app.toml").write_text('columns = ["W", "PCI"]\n', encoding="utf-8")
    done = gputop_here("-1", "--demo", "hgx-h100-8", XDG_CONFIG_HOME=str(tmp_path))
    heads = [line.split() for line in done.stdout.splitlines() if line.lstrip().startswith("GPU ")]
    assert heads == [["GPU", "Power", "W", "PCI"]]


def test_the_jobs_of_this_machine_are_asked_without_a_watch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """RAS and /proc alone, while the findings are worked out; a late answer is not waited for."""
    here = DemoFeed("sick-h100-8").at(0)
    live = replace(here, source=("live",))
    told, asked = of_demo(here), []

    def quick(snapshot: NodeSnapshot, **rest: object) -> JobsReport | None:
        asked.append(rest)
        return told

    monkeypatch.setattr(once, "ask_live", quick)
    second = text_of(list(once.first_lines(live, 120))[1])
    assert asked == [
        {"ras": True, "wait": once.PAUSE_SECONDS, "pause": once.PAUSE_SECONDS, "watched": False}
    ]
    assert "rank 3 (pid 41003, GPU3) keeps 5 waiting" in second
    assert second.endswith(" · gputop jobs")

    gone = threading.Event()
    monkeypatch.setattr(once, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(once, "ask_live", lambda *_, **__: gone.wait(5))
    second = text_of(list(once.first_lines(live, 120))[1])
    gone.set()
    assert "BUSY GPU0-5" in second
    assert second.endswith(" · for late ranks gputop jobs")

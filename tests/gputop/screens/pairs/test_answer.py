"""What the first lines of the Pairs screen answer, and which pair comes first."""

from __future__ import annotations

from gputop.app import GpuTop
from gputop.screens.pairs.screen import worst_pair
from tests.support.app import demo_report, give, press, rounds, text


def test_the_worst_pair_comes_first() -> None:
    def worst(demo: str, device: int | None = None) -> tuple[int, int]:
        report = demo_report(demo)
        gpus = [gpu.address for gpu in report.snapshot.machine.gpus]
        found = worst_pair(report, None if device is None else gpus[device])
        assert found is not None
        return gpus.index(found[0]), gpus.index(found[1])

    assert worst("pcie-l40s-8") == (0, 4), "without P2P, and the farthest"
    assert worst("pcie-l40s-8", 6) == (6, 0)
    assert worst("sick-h100-8") == (0, 3), "GPU3 lacks NVLinks"
    assert worst("dgx-1v") == (0, 5), "through another GPU"
    assert worst("hgx-h100-8") == (0, 1)


async def test_why_there_is_no_p2p_and_what_changes_it_take_two_keys() -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await give(pilot, demo_report("pcie-l40s-8"))
        await press(pilot, "3", "right")
        async for _ in rounds(pilot):
            if "NCCL_P2P_LEVEL" in text(pilot, "#answer"):
                break
        _, head, because, change, *_ = text(pilot, "#answer").splitlines()
        said = "○ NO P2P: shared memory in the host, by NCCL's rule"
        assert head.split("   ") == [" GPU0 → GPU5", said]
        assert "SYS (the link between NUMA nodes) is beyond PXB, NCCL's default" in because
        assert "NCCL_P2P_LEVEL=SYS → P2P for 24 more pairs" in change
        assert "f try" in change
        assert "GPU0─31.5─sw─63.0─CPU0══CPU1─63.0─sw─31.5─GPU5" in text(pilot, "#answer")

"""The app on a made node whose figures move every second: `python -m tests.bench.app pcie 128`."""

from __future__ import annotations

import sys

from gputop.app import GpuTop

from .nodes import MadeFeed, MadeNode

if __name__ == "__main__":
    GpuTop(MadeFeed(MadeNode(sys.argv[1], int(sys.argv[2]))), 1.0).run()

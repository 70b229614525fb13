"""The app on a made node whose figures move every second.

`python -m tests.harness.bench.app pcie 128` starts it. A third argument is a file: it then says the
share of a core that making the figures up took.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from gputop.app import GpuTop

from .nodes import MadeFeed, MadeNode

if __name__ == "__main__":
    feed, begun = MadeFeed(MadeNode(sys.argv[1], int(sys.argv[2]))), time.monotonic()
    GpuTop(feed, 1.0).run()
    if len(sys.argv) > 3:
        share = feed.made_seconds / (time.monotonic() - begun)
        Path(sys.argv[3]).write_text(str(share), encoding="ascii")

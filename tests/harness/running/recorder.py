"""gputop itself, which also writes what `jobs` was given to the file that RECORD names.

`tests/topology/jobs/replaying.py` reads such a file.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from gputop.__main__ import main
from gputop.topology.jobs import asking


def record(path: Path) -> None:
    """Let what is asked be written when it is judged."""
    judge, count = asking.answer, asking._Asked.states
    kept: dict[str, Any] = {}

    def states(self: Any, replies: Any, earlier: Any, seen: Any) -> Any:
        told = count(self, replies, earlier, seen)
        kept.update(replies=replies, earlier=earlier, quiet=[one.quiet_seconds for one in told])
        return told

    def answer(snapshot: Any, activities: Any, ras: Any, **more: Any) -> Any:
        names = ("traffic", "seconds", "loads", "now")
        given = {"snapshot": snapshot, "activities": activities, **kept}
        given |= {name: more[name] for name in names}
        path.write_bytes(msgspec.json.encode(given, enc_hook=str))
        return judge(snapshot, activities, ras, **more)

    asking._Asked.states = states  # type: ignore[method-assign]
    asking.answer = answer


if __name__ == "__main__":
    if wanted := os.environ.get("RECORD"):
        record(Path(wanted))
    main()

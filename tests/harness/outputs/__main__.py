"""Records what all commands print, or compares two such records."""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from pathlib import Path

from .recording import record


def main() -> int:
    """Run `record` or `compare`; 1 where two records differ."""
    parser = argparse.ArgumentParser(prog="python -m tests.harness.outputs")
    actions = parser.add_subparsers(dest="action", required=True)
    recording = actions.add_parser("record", help="write down what every command prints")
    recording.add_argument("folder", type=Path)
    recording.add_argument("--only", default="", help="only inputs whose name holds this")
    recording.add_argument("--processes", type=int, default=2)
    comparing = actions.add_parser("compare", help="say what differs between two records")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    comparing.add_argument("--lines", type=int, default=12, help="lines shown of a difference")
    given = parser.parse_args()
    if given.action == "record":
        return record(given.folder, given.only, given.processes)
    return _compare(given.before, given.after, given.lines)


def _compare(before: Path, after: Path, shown: int) -> int:
    files = sorted({path.name for path in (*before.glob("*.json"), *after.glob("*.json"))})
    different = total = 0
    for name in files:
        old, new = _read(before / name), _read(after / name)
        for line in sorted(old.keys() | new.keys()):
            total += 1
            if old.get(line) == new.get(line):
                continue
            different += 1
            print(f"\n### {name}: gputop {line}")
            if line not in old or line not in new:
                print("only " + ("after" if line in new else "before"))
                continue
            changes = difflib.unified_diff(
                old[line].splitlines(), new[line].splitlines(), "before", "after", lineterm="", n=0
            )
            for number, change in enumerate(changes):
                if number == shown + 2:
                    print("...")
                    break
                print(change[:300])
    print(f"{total - different} equal, {different} different of {total} outputs")
    return 1 if different else 0


def _read(file: Path) -> dict[str, str]:
    if not file.exists():
        return {}
    found: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
    return found


if __name__ == "__main__":
    sys.exit(main())

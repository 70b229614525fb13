"""All tests but those of probes under other Pythons.

`python -m tests.harness.versions` takes every one, or those that are named. Probes run under
whatever Python has torch, which no release has for every version. What stands behind `--` goes to
pytest. Ends with 1 if a version fails or cannot be had.
"""

from __future__ import annotations

import argparse
import sys

from tests.harness.versions import pythons

SPREAD = ("--numprocesses", "2", "--dist", "worksteal", "--ignore", "tests/probes")


def main() -> int:
    """Run the tests, one version after the other."""
    parser = argparse.ArgumentParser(prog="python -m tests.harness.versions", description=__doc__)
    parser.add_argument("versions", nargs="*", help="such as 3.10; by default all there are")
    split = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    given, behind = parser.parse_args(sys.argv[1:split]), sys.argv[split + 1 :]
    found = {".".join(map(str, version)): path for version, path in pythons.found().items()}
    failed = 0
    for name in given.versions or found:
        if name not in found:
            print(f"Python {name}: none on PATH, of pyenv or of uv; there are {', '.join(found)}")
            failed = 1
            continue
        print(f"Python {name}: {found[name]}", flush=True)
        python = pythons.environment(found[name])
        ended = pythons.run_tests(python, *SPREAD, *behind)
        failed |= ended.returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main())

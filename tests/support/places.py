"""Where things lie that tests read or run."""

from __future__ import annotations

import os
from pathlib import Path

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
"""The checkout."""
RECORDINGS = TESTS / "recordings"
SHARED = ROOT.parent / "shared"
"""Beside the checkout, where it is there at all."""
CAPTURES = Path(os.environ.get("GPUTOP_CAPTURES", SHARED / "captures")).resolve()

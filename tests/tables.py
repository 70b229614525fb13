"""One test for all rows of a table: each is checked, and all that fail are named."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from typing import TypeVar

Row = TypeVar("Row")


def hold(
    check: Callable[[Row], object], rows: Iterable[Row], name: Callable[[Row], str] = str
) -> None:
    """Check every row; AssertionError that names all that fail, or if there are none to check.

    A test for each row costs more than most rows do.
    """
    listed = list(rows)
    assert listed, "no rows"
    failed = []
    for row in listed:
        try:
            check(row)
        except Exception:  # noqa: BLE001 - the rows behind it are checked too
            failed.append(f"{name(row)}: {traceback.format_exc(limit=-1)}")
    assert not failed, f"{len(failed)} of {len(listed)} fail\n" + "\n".join(failed)

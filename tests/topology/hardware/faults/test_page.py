"""The page of the catalogue is that of its tables."""

from __future__ import annotations

from tests.support.kernel_faults import PAGE, page


def test_the_page_is_that_of_the_catalogue() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text == page(text), "python -m tests.support.kernel_faults"
    assert "| Xid | 176 | " in text
    assert "| SXid | 399 | " in text

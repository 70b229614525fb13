"""One element of an NCCL topology XML, kept exactly as the file has it."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

NOT_IN_XML = "not in a topology XML"
"""Why fields of a device are unknown that only such a file names."""

BASE_FILE = "not in a topology file without GPUs"
"""Why only the place is known of a GPU that such a file names by its PCI class alone."""


class Element(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tag, its attributes in order, and what is nested in it; values stay text.

    Width "0", an odd speed string or a missing bridge are what NCCL will read, so they are what
    is kept.
    """

    tag: str
    attributes: tuple[tuple[str, str], ...] = ()
    children: tuple[Element, ...] = ()

    def get(self, name: str) -> str | None:
        """The value of an attribute; None when the element does not have it."""
        for key, value in self.attributes:
            if key == name:
                return value
        return None

    def each(self, tag: str) -> Iterator[Element]:
        """The direct children with this tag, in order."""
        return (child for child in self.children if child.tag == tag)

    def walk(self, tag: str = "") -> Iterator[Element]:
        """The element itself and everything below it, parents first; `tag`: those of it alone."""
        stack = [self]
        while stack:
            element = stack.pop()
            if not tag or element.tag == tag:
                yield element
            stack += reversed(element.children)

    def has(self, tag: str) -> bool:
        """Whether an element of this tag is anywhere below."""
        return self.tag == tag or any(child.has(tag) for child in self.children)

"""An element of a topology XML that is still growing; `freeze` makes an Element of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ...model.element import Element


@dataclass(slots=True, eq=False)
class ElementDraft:
    """A tag, attributes in the order in which they were set, children, and the element above."""

    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: list[ElementDraft] = field(default_factory=list)
    above: ElementDraft | None = None
    keep: bool = False
    """Part of this communicator: a GPU with a rank, a NIC of the network."""

    def add(self, tag: str, **attributes: str) -> ElementDraft:
        """Append a child."""
        child = ElementDraft(tag, dict(attributes), above=self)
        self.children.append(child)
        return child

    def place(self, child: ElementDraft) -> None:
        """Take in a `pci` element in the order of bus ids, as text (NCCL issue 820)."""
        busid = child.attributes.get("busid", "")
        index = len(self.children)
        for i, other in enumerate(self.children):
            if "busid" in other.attributes and busid < other.attributes["busid"]:
                index = i
                break
        self.children.insert(index, child)
        child.above = self

    def default(self, name: str, value: str) -> None:
        """Set an attribute unless the element has it."""
        self.attributes.setdefault(name, value)

    def sub(self, tag: str) -> ElementDraft | None:
        """The first direct child with this tag."""
        return next((child for child in self.children if child.tag == tag), None)

    def walk(self) -> Iterator[ElementDraft]:
        """Go through the element and everything below it, parents first."""
        stack = [self]
        while stack:
            element = stack.pop()
            yield element
            stack += reversed(element.children)

    def trim(self) -> bool:
        """Drop branches in which nothing is kept; say whether anything is (ncclTopoTrimXmlRec)."""
        if self.keep:
            return True
        kept = [child.trim() for child in self.children]
        self.children = [
            child
            for child, stays in zip(self.children, kept, strict=True)
            if stays or child.tag not in ("cpu", "pci", "nic", "net")
        ]
        return any(kept)

    def fuse(self, other: ElementDraft) -> None:
        """Merge what another rank found; equal attributes make one element (ncclTopoFuseXml)."""
        known: dict[tuple[str, frozenset[tuple[str, str]]], ElementDraft] = {}
        for child in self.children:
            known.setdefault(child._looks(), child)
        for other_child in other.children:
            same = known.get(other_child._looks())
            if same is None:
                other_child.above = self
                self.children.append(other_child)
            else:
                same.fuse(other_child)

    def _looks(self) -> tuple[str, frozenset[tuple[str, str]]]:
        return self.tag, frozenset(self.attributes.items())

    def freeze(self) -> Element:
        """Make an Element of this and everything below it."""
        return Element(
            tag=self.tag,
            attributes=tuple(self.attributes.items()),
            children=tuple(child.freeze() for child in self.children),
        )


def thaw(element: Element, above: ElementDraft | None = None) -> ElementDraft:
    """Make a draft of an Element; the attribute `keep` of a file is its own business and stays."""
    draft = ElementDraft(element.tag, dict(element.attributes), above=above)
    draft.children = [thaw(child, draft) for child in element.children]
    return draft

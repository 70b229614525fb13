"""The output of an export format, and the look-up of a format by its name."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from ..node import Node


class Written(msgspec.Struct, frozen=True):
    """The text, and the assumptions behind it."""

    text: str
    """Printed as it is, with the newline that ends it."""
    assumptions: tuple[str, ...] = ()
    """Sentences for stderr."""
    document: bool = False
    """Whether programs read it: then it is UTF-8 in any terminal, and well-formed."""


def exported(name: str, node: Node) -> Written:
    """Write the node in the format of that name, one of NAMES; ImportError for any other."""
    module = import_module(f".{name.replace('-', '_')}", __package__)
    written: Written = module.write(node)
    return written

"""The topology file that NCCL starts from on this machine, before it detects anything."""

from pathlib import Path

import msgspec

from ...model.element import Element
from ...model.format import FormatError
from ...model.snapshot import NodeSnapshot
from ..order import leading
from ..settings import Settings
from .read import MAX_BYTES, read_topology

DEFAULT = "/var/run/nvidia-topologyd/virtualTopology.xml"
"""Read without NCCL_TOPO_FILE, where a cloud's image has it (graph/topo.cc:ncclTopoGetSystem)."""


class Base(msgspec.Struct, frozen=True):
    """The file's content (None without a file) and a remark on it."""

    element: Element | None = None
    remark: str | None = None


def base_topology(snapshot: NodeSnapshot, settings: Settings, default: str = DEFAULT) -> Base:
    """Read the file that NCCL_TOPO_FILE names, or the default one; of a live node alone.

    Never raises: NCCL goes on without a file that it cannot open.
    """
    named = settings.text("NCCL_TOPO_FILE")
    if not snapshot.is_live:
        if named is None:
            return Base()
        return Base(remark="NCCL_TOPO_FILE names a file of another machine: it was not read.")
    path = default if named is None else named
    library = leading(snapshot.machine.gpus).library
    try:
        if named is None and not Path(path).exists():
            return Base()
        element = read_topology(_content(Path(path)), path)
    except OSError as error:
        return Base(
            remark=f"{path} was not read ({error.strerror}): {library} would go on without it."
        )
    except (FormatError, ValueError) as error:
        return Base(
            remark=f"{path} was not used: {error}. {library} would fail or read it otherwise."
        )
    return Base(element, f"The topology file {path} is the base of what is detected.")


def _content(path: Path) -> bytes:
    # A pipe or device never ends.
    if not path.is_file():
        raise FormatError("not a regular file" if path.exists() else "no such file")
    with path.open("rb") as file:
        return file.read(MAX_BYTES + 1)

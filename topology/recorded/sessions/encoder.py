"""Snapshots become frames: a whole one every ten minutes, what changed in between."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ...model.snapshot import NodeSnapshot
from .changes import ENCODE, Differences, NoteKind, SessionNote, Tree, WholeFrame
from .frames import MOST_TEXT, FramePacker, RecordingError
from .kept import Keeping

BLOCK_FRAMES = 600
"""Frames of a block: a whole snapshot of 8 GPUs packs to what changes in half a minute, and a jump
unpacks half a block in the mean, some 10 ms."""
COUNTERS = frozenset(
    (
        "pcie_replays",
        "replay_errors",
        "recovery_errors",
        "crc_errors",
        "errors",
        "corrected",
        "uncorrected",
        "deferred",
        "corrected_volatile",
        "uncorrected_volatile",
        "corrected_aggregate",
        "uncorrected_aggregate",
    )
)
"""Fields that only grow, unless the driver is loaded anew or a GPU is another one."""


class SessionEncoder:
    """The frames of one recorder; each is fit to be appended by itself."""

    def __init__(self) -> None:
        self._keeping, self._packer = Keeping(), FramePacker()
        self._differences: Differences | None = None
        self._last: Tree = {}
        self._frames = 0

    def frame(self, snapshot: NodeSnapshot, notes: tuple[SessionNote, ...] = ()) -> bytes:
        """The frame of one reading. Raises RecordingError for a node that is too large."""
        tree = self._keeping.tree(snapshot)
        notes = (*notes, *(_backward(self._last, tree) if self._last else ()))
        if self._differences is None or self._frames >= BLOCK_FRAMES:
            self._differences, self._frames = Differences(tree), 0
            text, whole = ENCODE(WholeFrame(tree, notes)), True
        else:
            changed = self._differences.of(tree)
            text, whole = ENCODE(msgspec.structs.replace(changed, notes=notes)), False
        if len(text) > MOST_TEXT:
            raise RecordingError(f"a reading of more than {MOST_TEXT >> 20} MiB")
        self._last = tree
        self._frames += 1
        return self._packer.pack(text, snapshot.taken_at, whole=whole, noted=bool(notes))

    def begin_block(self) -> None:
        """Let the next frame need nothing of those before, because one of them was not kept."""
        self._differences = None


def _backward(old: Tree, new: Tree) -> Iterator[SessionNote]:
    """Counters that are lower than they were."""
    before = {gpu["address"]: gpu for gpu in old["readings"]["gpus"]}
    for gpu in new["readings"]["gpus"]:
        known = before.get(gpu["address"])
        if known is None or known is gpu or known == gpu:
            continue
        for name in sorted(_lower(known, gpu)):
            words = name.replace("_", " ")
            text = f"{gpu['address']}: {words} went back, so the driver counts anew"
            yield SessionNote(NoteKind.COUNTER, text, "notice", gpu["address"])


def _lower(old: Tree, new: Tree) -> set[str]:
    found = set()
    for name, value in new.items():
        was = old.get(name)
        if name in COUNTERS and isinstance(value, int) and isinstance(was, int) and value < was:
            found.add(name)
        elif isinstance(value, dict) and isinstance(was, dict):
            found |= _lower(was, value)
        elif isinstance(value, tuple) and isinstance(was, tuple) and value != was:
            pairs = zip(was, value, strict=False)
            found |= {
                name
                for before, now in pairs
                if isinstance(now, dict) and isinstance(before, dict)
                for name in _lower(before, now)
            }
    return found

"""How roomy a drawing is: widths of columns, gaps, and how wide a tree gets with them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from .tree import DRIVE, GPU, HOSTS, NIC, SOCKET, Item


@dataclass(frozen=True, slots=True)
class Metrics:
    """One degree of roominess, in cells."""

    framed: bool
    """Boxes with a frame, three rows and more; else one coloured line each."""
    gpu_width: int
    nic_width: int
    beside: bool
    """NICs in columns of their own beside the GPUs; else on a rail above the GPU."""
    leaf_gap: int
    group_gap: int
    root_gap: int
    host_width: int = 6
    """Least width of sockets and NUMA nodes with devices."""
    wire_rows: int = 1
    """Rows between a box and the one below it."""
    gpu_lines: int = 1
    part_rows: int = 0
    """Rows of parts inside the box of a package."""
    heading: int = 0
    """Rows over two GPUs that are the dies of one package."""

    @property
    def port(self) -> int:
        """Column of a box, from its left edge, where its line begins."""
        return 2 if self.framed else 1

    def inset(self, width: int) -> int:
        """Cells between the edge of a box and what is in it, on either side."""
        return 2 if self.framed and width > 9 else 1

    @property
    def box_height(self) -> int:
        """Height of hosts, bridges and planes."""
        return 3 if self.framed else 1

    @property
    def gpu_height(self) -> int:
        """Height of GPUs, and of NICs beside them."""
        return self.part_rows + (self.gpu_lines + 2 if self.framed else 1)


@dataclass(slots=True)
class Block:
    """A box with what is below it, or a column of devices: a GPU, NICs, or both."""

    item: Item | None
    """The box; None for the whole drawing, and for a column of NICs."""
    blocks: list[Block] = field(default_factory=list)
    rail: list[Item] = field(default_factory=list)
    """NICs and drives that sit on the line from above."""
    width: int = 0
    x: int = 0

    @property
    def is_column(self) -> bool:
        """Devices rather than a box with something below it."""
        return (self.item is None and bool(self.rail)) or self.is_device

    @property
    def is_device(self) -> bool:
        """A GPU, or a NIC in a column of its own."""
        return self.item is not None and self.item.is_leaf

    def walk(
        self, parent: Block | None = None, depth: int = -1
    ) -> Iterator[tuple[Block, Block | None, int]]:
        """Every block with its parent and its depth; the whole drawing has depth -1."""
        yield self, parent, depth
        for block in self.blocks:
            yield from block.walk(self, depth + 1)


FULL = tuple(
    Metrics(True, gpu, max(8, min(12, gpu - 4)), beside, 1, gap, root, host)
    for beside, widest, narrowest in (
        (True, 18, 12),  # narrower ones have no room for the traffic of a GPU
        (False, 18, 13),
        (True, 10, 10),
        (False, 12, 9),
    )
    for gpu in range(widest, narrowest - 1, -1)
    for gap, root in ((3, 8), (2, 6), (1, 4), (1, 2))
    for host in (48, 14)
)
COMPACT = tuple(
    Metrics(False, gpu, max(6, gpu - 3), False, 1, 1, root)
    for gpu in (12, 11, 10, 9, 8, 7, 6, 5)
    for root in (4, 3, 2, 1)
)
_SCROLLING = {True: FULL[-1], False: Metrics(False, 9, 6, False, 1, 1, 2)}
"""When even the tightest does not fit, the drawing scrolls, so it may as well be legible."""


def arrange(items: list[Item], width: int, *, framed: bool) -> tuple[Block, Metrics]:
    """The roomiest blocks that fit into a width, placed from column 0; else ones that scroll."""
    gpus = sum(leaf.kind == GPU for item in items for leaf in item.walk())
    for metrics in FULL if framed else COMPACT:
        if gpus * metrics.gpu_width > width:
            continue
        block = _blocks(items, metrics)
        if block.width <= width:
            break
    else:
        metrics = _SCROLLING[framed]
        block = _blocks(items, metrics)
    _place(block, 0, block.width, metrics)
    return block, metrics


def with_rows(
    metrics: Metrics, wire_rows: int, gpu_lines: int, part_rows: int, heading: int
) -> Metrics:
    """The same with other heights."""
    return replace(
        metrics, wire_rows=wire_rows, gpu_lines=gpu_lines, part_rows=part_rows, heading=heading
    )


def _blocks(items: list[Item], metrics: Metrics) -> Block:
    whole = Block(None, _children(items, metrics))
    whole.width = _sum(whole, metrics)
    return whole


def _children(items: list[Item], metrics: Metrics) -> list[Block]:
    nics = [item for item in items if item.kind == NIC]
    drives = [item for item in items if item.kind == DRIVE]
    gpus = [item for item in items if item.kind == GPU]
    railed = not metrics.beside or len(nics) > 2 * max(1, len(gpus))
    blocks = []
    for item in items:
        if item.kind == GPU:
            blocks.append(Block(item, width=metrics.gpu_width))
        elif item.kind == NIC:
            if not railed:
                blocks.append(Block(item, width=metrics.nic_width))
        elif item.kind != DRIVE:
            block = Block(item, _children(item.children, metrics))
            block.width = max(_own_width(item, metrics), _sum(block, metrics))
            blocks.append(block)
    on_lines = nics if railed else []
    if on_lines or drives:
        columns = [block for block in blocks if block.item in gpus]
        # Where the parent has no GPU of its own, its NICs sit on the lines to what is below it.
        columns = columns or blocks
        if not columns:
            columns = [Block(None, width=metrics.nic_width + metrics.port + 2)]
            blocks = columns
        for i, nic in enumerate(on_lines):
            columns[i * len(columns) // len(nics)].rail.append(nic)
        for drive in drives:
            columns[0].rail.append(drive)
    return blocks


def _own_width(item: Item, metrics: Metrics) -> int:
    if item.kind in HOSTS:
        if item.children:
            return metrics.host_width
        numbers = " ".join(m.rpartition(":")[2] for m in item.members if m.startswith("numa"))
        return max(len(numbers) + 5, 6) + (4 if metrics.framed else 2)
    return 10 if metrics.framed else 2


def gap(before: Block, after: Block, metrics: Metrics) -> int:
    """Free columns between two neighbours."""
    hosts = [b.item is not None and b.item.kind == SOCKET for b in (before, after)]
    if any(hosts):
        return metrics.root_gap
    return metrics.leaf_gap if before.is_column and after.is_column else metrics.group_gap


def _sum(block: Block, metrics: Metrics) -> int:
    gaps = zip(block.blocks, block.blocks[1:], strict=False)
    return sum(b.width for b in block.blocks) + sum(gap(a, b, metrics) for a, b in gaps)


def _place(block: Block, x: int, width: int, metrics: Metrics) -> None:
    block.x, block.width = x, width
    position = x + (width - _sum(block, metrics)) // 2 if block.blocks else x
    for i, child in enumerate(block.blocks):
        if i:
            position += gap(block.blocks[i - 1], child, metrics)
        _place(child, position, child.width, metrics)
        position += child.width

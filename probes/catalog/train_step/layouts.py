"""How the ranks share a train step: each with all weights, with a part of each, or of each product.

Data parallel is torch's DistributedDataParallel; fully sharded its `fully_shard`, layer by layer
(ZeRO-3); tensor parallel splits the heads and the inner width of every layer, as Megatron does,
with two all-reduces forward and two backward in each.
"""

import contextlib
import importlib
from collections.abc import Callable
from typing import Any

from ...protocol.errors import WorkerError
from ...protocol.status import ClosedWord
from .model import Stack

_COLUMNS = ("query", "key", "value", "gate", "up")
_ROWS = ("out", "down")
WATCHED = "down"
"""The product whose gradient is compared: it stands last, so that all before it must be right."""
TOLERANCE = 0.05
"""Of loss and gradient, relative: bf16 rounds sums that another order adds up to a few percent."""


class TrainLayout(ClosedWord):
    """A layout, as its figure is called."""

    DATA = "data parallel"
    SHARDED = "fully sharded"
    TENSOR = "tensor parallel"

    @property
    def same_weights(self) -> bool:
        """Whether every rank must begin with the weights of the others; DDP hands them round."""
        return self is not TrainLayout.DATA

    @property
    def same_input(self) -> bool:
        """Whether all ranks compute the same tokens."""
        return self is TrainLayout.TENSOR

    @property
    def meanwhile(self) -> str:
        """What the ranks do besides computing."""
        return {
            TrainLayout.DATA: "adds gradients up in buckets meanwhile",
            TrainLayout.SHARDED: "gathers each layer's weights twice, adds up gradients in parts",
            TrainLayout.TENSOR: "adds up halves of products, four times in each layer",
        }[self]


class NoLayout(WorkerError):  # noqa: N818  (an answer, not an error)
    """A layout that torch or the number of ranks does not allow; the text says why."""


def lay_out(
    torch: Any, layout: TrainLayout, model: Any, place: Any, ranks: int, stack: Stack
) -> Any:
    """The model in this layout on a torch device; NoLayout where there is none."""
    makers: dict[TrainLayout, Callable[[], Any]] = {
        TrainLayout.DATA: lambda: _data(torch, model, place),
        TrainLayout.SHARDED: lambda: _sharded(torch, model),
        TrainLayout.TENSOR: lambda: _tensor(torch, model, place, ranks, stack),
    }
    return makers[layout]()


def compared(
    layout: TrainLayout, gradient: Any, whole: Any, rank: int, ranks: int
) -> "tuple[Any, Any]":
    """A rank's gradient of the watched product, and the same part of the whole model's.

    Every rank must ask: torch gathers a gradient that is spread over them.
    """
    if layout is TrainLayout.TENSOR:
        return gradient, whole.chunk(ranks, _split_in(WATCHED))[rank]
    return gradient.full_tensor(), whole


def own_part(gradient: Any) -> Any:
    """What this rank holds of a gradient."""
    return gradient.to_local() if hasattr(gradient, "to_local") else gradient


def _data(torch: Any, model: Any, place: Any) -> Any:
    ids = None if place.type == "cpu" else [place.index]
    parallel = torch.nn.parallel.DistributedDataParallel
    return parallel(model, device_ids=ids, gradient_as_bucket_view=True)


def _sharded(torch: Any, model: Any) -> Any:
    shard = _shard()
    if shard is None:
        raise NoLayout(f"torch {torch.__version__} has no fully_shard")
    for layer in model:
        shard(layer)
    return shard(model) or model  # old versions give nothing back


def _shard() -> Any:
    """Give torch's function, from 2.6 on, else under its earlier name; None before 2.2."""
    with contextlib.suppress(ImportError, AttributeError):
        return importlib.import_module("torch.distributed.fsdp").fully_shard
    with contextlib.suppress(ImportError, AttributeError):
        return importlib.import_module("torch.distributed._composable.fsdp").fully_shard
    return None


def _tensor(torch: Any, model: Any, place: Any, ranks: int, stack: Stack) -> Any:
    """Split by hand: torch's `parallelize_module` launches so slowly that the host is measured.

    On two H200 under a slow host it reached 0.42 of the same layers split like this.
    """
    if stack.kv_heads % ranks or stack.ffn % ranks:
        raise NoLayout(f"{stack.kv_heads} heads of keys cannot be split over {ranks} GPUs")
    enter, leave = _ends(torch)
    for layer in model:
        for name in (*_COLUMNS, *_ROWS):
            product = getattr(layer, name)
            part = product.weight.data.chunk(ranks, _split_in(name))[torch.distributed.get_rank()]
            product.weight = torch.nn.Parameter(part.contiguous())
        for norm in (layer.norm, layer.ffn_norm):
            norm.register_forward_hook(lambda module, given, came: enter(came))
        for name in _ROWS:
            getattr(layer, name).register_forward_hook(lambda module, given, came: leave(came))
    return model


def _split_in(name: str) -> int:
    """The dimension of a product's weight, (outputs, inputs), that the ranks share."""
    return 1 if name in _ROWS else 0


def _ends(torch: Any) -> "tuple[Callable[[Any], Any], Callable[[Any], Any]]":
    """What every rank computes with, and what all of them add up; one's way back is the other."""
    add = torch.distributed.all_reduce

    class Enter(torch.autograd.Function):  # type: ignore[misc]
        """Every rank takes the same numbers; their gradients are added up."""

        @staticmethod
        def forward(context: Any, numbers: Any) -> Any:
            return numbers.view_as(numbers)

        @staticmethod
        def backward(context: Any, gradient: Any) -> Any:
            whole = gradient.clone(memory_format=torch.contiguous_format)
            add(whole)
            return whole

    class Leave(torch.autograd.Function):  # type: ignore[misc]
        """Each rank's part of a sum becomes the sum; its gradient is the same for all."""

        @staticmethod
        def forward(context: Any, part: Any) -> Any:
            whole = part.clone()
            add(whole)
            return whole

        @staticmethod
        def backward(context: Any, gradient: Any) -> Any:
            return gradient

    return Enter.apply, Leave.apply

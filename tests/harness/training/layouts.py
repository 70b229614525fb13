"""Each layout as the step of one rank: `maker(layout)(shape, batch, device)` gives the step."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from .llama import Llama, loss_of, torch
from .plans import MICRO_BATCHES, SEQUENCE, VOCABULARY, TrainedShape

Step = Callable[[], None]


def _tokens(batch: int, device: Any) -> tuple[Any, Any]:
    shape = (batch, SEQUENCE)
    return tuple(torch.randint(0, VOCABULARY, shape, device=device) for _ in range(2))


def _made(shape: TrainedShape, device: Any, stage: int = 0, stages: int = 1) -> Any:
    """Weights, gradients and both states of AdamW are bfloat16: 8 bytes for each parameter."""
    return Llama(shape, stage, stages).to(device=device, dtype=torch.bfloat16)


def _optimizer(model: Any) -> Any:
    """Fused AdamW; sharded and whole parameters are two groups, as no kernel takes both."""
    kinds: dict[type, list[Any]] = {}
    for parameter in model.parameters():
        kinds.setdefault(type(parameter.data), []).append(parameter)
    groups = [{"params": parameters} for parameters in kinds.values()]
    return torch.optim.AdamW(groups, lr=1e-4, fused=True)


def _plain(model: Any, batch: int, device: Any) -> Step:
    """Forward, backward and optimizer, one micro-batch."""
    optimizer = _optimizer(model)
    tokens, target = _tokens(batch, device)

    def step() -> None:
        loss_of(model(tokens), target).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def single(shape: TrainedShape, batch: int, device: Any) -> Step:
    return _plain(_made(shape, device), batch, device)


def ddp(shape: TrainedShape, batch: int, device: Any) -> Step:
    """Buckets of 25 MiB are the default; gradients are views of them."""
    parallel = import_module("torch.nn.parallel")
    ids = [device.index] if device.type == "cuda" else None
    model = parallel.DistributedDataParallel(
        _made(shape, device), device_ids=ids, gradient_as_bucket_view=True
    )
    return _plain(model, batch // 2, device)


def fsdp(shape: TrainedShape, batch: int, device: Any) -> Step:
    """Each block is gathered by itself, twice: ZeRO-3."""
    fully_shard = import_module("torch.distributed.fsdp").fully_shard
    model = _made(shape, device)
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)
    return _plain(model, batch // 2, device)


def tp(shape: TrainedShape, batch: int, device: Any) -> Step:
    """Two all-reduces forward and two backward in each block; the loss is split by vocabulary."""
    tensor: Any = import_module("torch.distributed.tensor")
    parallel: Any = import_module("torch.distributed.tensor.parallel")
    mesh = import_module("torch.distributed.device_mesh").init_device_mesh(device.type, (2,))
    column, row = parallel.ColwiseParallel, parallel.RowwiseParallel
    model = _made(shape, device)
    plan: dict[str, Any] = {
        "embedding": row(input_layouts=tensor.Replicate()),
        "head": column(output_layouts=tensor.Shard(-1), use_local_output=False),
    }
    for number in range(len(model.blocks)):
        inside = f"blocks.{number}"
        plan |= {f"{inside}.attention.{name}": column() for name in ("wq", "wk", "wv")}
        plan |= {f"{inside}.feed_forward.{name}": column() for name in ("gate", "up")}
        plan |= {f"{inside}.attention.wo": row(), f"{inside}.feed_forward.down": row()}
    model = parallel.parallelize_module(model, mesh, plan)
    optimizer = _optimizer(model)
    torch.manual_seed(1)  # all ranks see the same tokens
    tokens, target = _tokens(batch, device)

    def step() -> None:
        with parallel.loss_parallel():
            loss_of(model(tokens), target).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


class _Pipeline:
    """1F1B over two stages of equally many blocks.

    Each direction has a communicator of its own: on one, a send that waits for its receive would
    stand before the receive that the peer waits for.
    """

    def __init__(self, shape: TrainedShape, batch: int, device: Any) -> None:
        self.dist: Any = import_module("torch.distributed")
        self.rank = self.dist.get_rank()
        self.model = _made(shape, device, self.rank, 2)
        self.optimizer = _optimizer(self.model)
        self.forth, self.back = (self.dist.new_group([0, 1]) for _ in range(2))
        self._open(shape, device)
        torch.manual_seed(1)
        tokens, target = _tokens(batch, device)
        self.tokens, self.target = tokens.chunk(MICRO_BATCHES), target.chunk(MICRO_BATCHES)
        self.passed = {
            "size": (batch // MICRO_BATCHES, SEQUENCE, shape.hidden),
            "dtype": torch.bfloat16,
            "device": device,
        }

    def _open(self, shape: TrainedShape, device: Any) -> None:
        """Make communicators and load kernels while nothing waits.

        At their first use both wait for all kernels that run: for those of NCCL, which wait for the
        other rank, which waits for this one.
        """
        for group, sender in ((self.forth, 0), (self.back, 1)):
            pass_on = self.dist.isend if self.rank == sender else self.dist.irecv
            pass_on(torch.zeros(1, device=device), 1 - self.rank, group=group).wait()
            self._finish(device)
        width = (1, SEQUENCE) if self.rank == 0 else (1, SEQUENCE, shape.hidden)
        made = torch.zeros(width, device=device, dtype=torch.bfloat16)
        given = made.long() if self.rank == 0 else made.requires_grad_()
        self.model(given).float().sum().backward()
        self.optimizer.zero_grad(set_to_none=True)
        self._finish(device)

    def _finish(self, device: Any) -> None:
        if device.type == "cuda":
            torch.cuda.synchronize()

    def step(self) -> None:
        sent = self._first() if self.rank == 0 else self._last()
        for request, _ in sent:
            request.wait()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def _awaited(self, group: Any) -> tuple[Any, Any]:
        """A receive from the other rank: what to wait for, and where it comes."""
        place = torch.empty(**self.passed)
        return self.dist.irecv(place, 1 - self.rank, group=group), place

    def _sent(self, tensor: Any, group: Any) -> tuple[Any, Any]:
        """A send to the other rank; the tensor lives as long as its request."""
        tensor = tensor.detach().contiguous()
        return self.dist.isend(tensor, 1 - self.rank, group=group), tensor

    def _first(self) -> list[tuple[Any, Any]]:
        """One micro-batch ahead of the last stage."""
        made = [self.model(self.tokens[0])]
        sent = [self._sent(made[0], self.forth)]
        for number in range(MICRO_BATCHES):
            request, gradient = self._awaited(self.back)
            if number + 1 < MICRO_BATCHES:
                made.append(self.model(self.tokens[number + 1]))
                sent.append(self._sent(made[-1], self.forth))
            request.wait()
            made[number].backward(gradient)
            made[number] = None
        return sent

    def _last(self) -> list[tuple[Any, Any]]:
        sent = []
        awaited = self._awaited(self.forth)
        for number in range(MICRO_BATCHES):
            request, given = awaited
            request.wait()
            if number + 1 < MICRO_BATCHES:
                awaited = self._awaited(self.forth)
            given.requires_grad_()
            loss = loss_of(self.model(given), self.target[number]) / MICRO_BATCHES
            loss.backward()
            sent.append(self._sent(given.grad, self.back))
        return sent


def pp(shape: TrainedShape, batch: int, device: Any) -> Step:
    return _Pipeline(shape, batch, device).step


MAKERS: dict[str, Callable[[TrainedShape, int, Any], Step]] = {
    "single": single, "ddp": ddp, "fsdp": fsdp, "tp": tp, "pp": pp,
}  # fmt: skip

"""A script for a fresh interpreter: does things for the first time and reports how long they took.

Run by path: `first_use.py PARENT_PID PLAN`. PLAN is a JSON object: `cpu`, `indices` (the numbers
that torch gives the devices), `steps` (names of STEPS, in order), `backend` (of torch.compile),
`started` (the monotonic clock when the parent started it). Each line of the answer is a JSON object
of one step: `variant`, `index`, `seconds` and `details`, or `why` in place of seconds. Standard
library only until the step "import"; killed by the kernel when the parent ends (see lifeline.py).
"""

import importlib
import importlib.util
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

Answer = dict[str, Any]
_STEADY_CALLS = 20
_LAUNCHES, _ROUNDS = 500, 3
"""Fewer than the 1024 entries of a queue, so that launching never waits."""
_GRAPH_KERNELS = 100
_LAYERS, _WIDTH, _HEAD, _TOKENS = 4, 256, 64, 128
"""A transformer so small that the host takes longer to launch it than the GPU to run it."""
_LAYER_SECONDS, _MOST_CALLS = 2.0, 1000
"""A virtual CPU launches a fifth faster for a moment than it does all the time."""
_SIDE, _CPU_SIDE = 1024, 64
_PINNED_BYTES = 64 << 20
_EXPECTED = (
    RuntimeError, ImportError, OSError, AttributeError, TypeError, ValueError, NotImplementedError,
)  # fmt: skip


class FirstUse:
    """The steps of one process; each can run only once."""

    def __init__(self, plan: "dict[str, Any]") -> None:
        self._plan = plan
        self._cpu = plan["cpu"] is True
        self._indices: list[int] = plan["indices"]
        self._torch: Any = None

    def answers(self) -> Iterator[Answer]:
        """Run the steps in order; a step that fails reports why, and the next one follows."""
        for name in self._plan["steps"]:
            # Without these steps nothing that follows would be a first use.
            yield from STEPS[name](self) if name in ("import", "contexts") else self._step(name)

    def _step(self, name: str) -> Iterator[Answer]:
        try:
            yield from STEPS[name](self)
        except _EXPECTED as error:
            words = f"{type(error).__name__}: {error}"
            yield {"variant": NAMES[name], "index": self._indices[0], "why": words[:400]}

    def _import(self) -> Iterator[Answer]:
        ready = time.monotonic()
        seconds, self._torch = _timed(lambda: importlib.import_module("torch"))
        details = {"interpreter_s": round(ready - self._plan["started"], 4)}
        yield {"variant": NAMES["import"], "seconds": seconds, "details": details}

    def _contexts(self) -> Iterator[Answer]:
        cuda = self._torch.cuda
        seconds, _ = _timed(cuda.init)
        library = "HIP" if getattr(self._torch.version, "hip", None) else "CUDA"
        yield {"variant": f"{library} init", "seconds": seconds}
        for order, index in enumerate(self._indices):
            seconds, _ = _timed(partial(self._open, index))
            details = {"order": order + 1}
            yield {"variant": "context", "index": index, "seconds": seconds, "details": details}

    def _open(self, index: int) -> None:
        with self._torch.cuda.device(index):
            self._torch.empty(1, device=f"cuda:{index}")
            self._torch.cuda.synchronize(index)

    def _device(self, index: int) -> str:
        return "cpu" if self._cpu else f"cuda:{index}"

    def _first(
        self, variant: str, index: int, work: Callable[[], object], **details: Any
    ) -> Answer:
        """The first call and the median of later ones, each until the device has finished."""

        def call() -> None:
            work()
            if not self._cpu:
                self._torch.cuda.synchronize(index)

        seconds, _ = _timed(call)
        later = [_timed(call)[0] for _ in range(_STEADY_CALLS)]
        details["steady_us"] = round(statistics.median(later) * 1e6, 3)
        return {"variant": variant, "index": index, "seconds": seconds, "details": details}

    def _kernel(self) -> Iterator[Answer]:
        index = self._indices[0]
        numbers = self._torch.empty(_SIDE, device=self._device(index))
        yield self._first(NAMES["kernel"], index, lambda: numbers.add_(1.0), elements=_SIDE)

    def _matmul(self) -> Iterator[Answer]:
        yield self._product(NAMES["matmul"], self._indices[0], "bfloat16")

    def _matmul_everywhere(self) -> Iterator[Answer]:
        for index in self._indices[1:]:
            yield self._product(NAMES["matmul"], index, "bfloat16")

    def _dtypes(self) -> Iterator[Answer]:
        for name in ("float16", "float32"):
            yield self._product(f"{NAMES['matmul']}, {name}", self._indices[0], name)

    def _product(self, variant: str, index: int, dtype: str) -> Answer:
        kind = getattr(self._torch, dtype)
        side = _CPU_SIDE if self._cpu else _SIDE
        ones = self._torch.empty(side, side, dtype=kind, device=self._device(index)).fill_(1.0)
        return self._first(variant, index, lambda: ones @ ones, dtype=dtype, side=side)

    def _attention(self) -> Iterator[Answer]:
        torch, index = self._torch, self._indices[0]
        functional = importlib.import_module("torch.nn.functional")
        shape = (1, 8, 512, 64)
        query = torch.empty(shape, dtype=torch.bfloat16, device=self._device(index)).fill_(0.5)

        def attend() -> object:
            return functional.scaled_dot_product_attention(query, query, query, is_causal=True)

        yield self._first(NAMES["attention"], index, attend, shape=list(shape), dtype="bfloat16")

    def _pinned(self) -> Iterator[Answer]:
        torch = self._torch

        def pin() -> object:
            return torch.empty(_PINNED_BYTES, dtype=torch.uint8, pin_memory=True)

        answer = self._first(NAMES["pinned"], self._indices[0], pin, bytes=_PINNED_BYTES)
        answer["details"]["steady"] = "from torch's cache of pinned memory"
        yield answer

    def _empty(self) -> Iterator[Answer]:
        torch, index = self._torch, self._indices[0]
        if self._cpu:
            tensor = torch.zeros(1)
            yield self._first(NAMES["empty"], index, lambda: tensor.add_(0.0))
            return
        with torch.cuda.device(index):
            answer = self._first(NAMES["empty"], index, lambda: torch.cuda._sleep(0))
            rounds = [self._launches(index) for _ in range(_ROUNDS)]
        launch, done = (statistics.median(each) * 1e6 for each in zip(*rounds))
        details = answer["details"]
        details["launch_and_wait_us"] = details["steady_us"]
        details.update(steady_us=round(launch, 3), back_to_back_us=round(done, 3))
        yield answer

    def _launches(self, index: int) -> "tuple[float, float]":
        """Seconds of one launch for the host, and of one kernel until all are done."""
        cuda = self._torch.cuda
        cuda.synchronize(index)
        start = time.perf_counter()
        for _ in range(_LAUNCHES):
            cuda._sleep(0)
        launched = time.perf_counter()
        cuda.synchronize(index)
        return (launched - start) / _LAUNCHES, (time.perf_counter() - start) / _LAUNCHES

    def _layer(self) -> Iterator[Answer]:
        index = self._indices[0]
        layers = [_Layer(self._torch, self._device(index)) for _ in range(_LAYERS)]
        shape = (1, _TOKENS, _WIDTH)
        start = self._torch.zeros(shape, dtype=self._torch.bfloat16, device=self._device(index))

        def both_ways() -> None:
            found = start
            for layer in layers:
                found = layer(found)
            found.sum().backward()

        answer = self._first(NAMES["layer"], index, both_ways, layers=_LAYERS)
        launched: list[float] = []
        seconds = 0.0 if self._cpu else _LAYER_SECONDS
        until = time.monotonic() + seconds
        while len(launched) < _STEADY_CALLS or time.monotonic() < until:
            launched.append(self._launched(both_ways, index))
            if len(launched) == _MOST_CALLS:
                break
        each = [seconds * 1e6 / _LAYERS for seconds in launched]
        details = {"steady_us": round(statistics.median(each), 3), "calls": len(each)}
        answer["details"].update(details, fastest_us=round(min(each), 3))
        yield answer

    def _launched(self, work: Callable[[], object], index: int) -> float:
        """Seconds until all is launched."""
        seconds, _ = _timed(work)
        if not self._cpu:
            self._torch.cuda.synchronize(index)
        return seconds

    def _graph(self) -> Iterator[Answer]:
        cuda, index = self._torch.cuda, self._indices[0]
        with cuda.device(index):
            graph = cuda.CUDAGraph()

            def capture() -> None:
                with cuda.graph(graph):
                    for _ in range(_GRAPH_KERNELS):
                        cuda._sleep(0)
                graph.replay()
                cuda.synchronize(index)

            seconds, _ = _timed(capture)
            answer = self._first(NAMES["graph"], index, graph.replay, kernels=_GRAPH_KERNELS)
        details = answer["details"]
        details["replay_us"] = details["steady_us"]
        details["steady_us"] = round(details["steady_us"] / _GRAPH_KERNELS, 4)
        yield {**answer, "seconds": seconds}

    def _compile(self) -> Iterator[Answer]:
        torch, index = self._torch, self._indices[0]
        numbers = torch.empty(_SIDE, device=self._device(index)).fill_(0.5)

        def small(x: Any) -> Any:
            return torch.sin(x) * 2.0 + x

        compiled = torch.compile(small, backend=self._plan["backend"])
        yield self._first(NAMES["compile"], index, lambda: compiled(numbers))


class _Layer:
    """A layer of Llama as transformers writes it, in eager PyTorch."""

    def __init__(self, torch: Any, device: str) -> None:
        self._torch, self._functional = torch, importlib.import_module("torch.nn.functional")

        def made(*shape: int) -> Any:
            given = torch.full(shape, 0.01, dtype=torch.bfloat16, device=device)
            return given.requires_grad_()

        self._norms = [made(_WIDTH) for _ in range(2)]
        self._square = [made(_WIDTH, _WIDTH) for _ in range(4)]
        self._wide = [made(2 * _WIDTH, _WIDTH) for _ in range(2)]
        self._narrow = made(_WIDTH, 2 * _WIDTH)
        self._turn = torch.ones(_TOKENS, _HEAD, dtype=torch.bfloat16, device=device)

    def __call__(self, given: Any) -> Any:
        linear, silu = self._functional.linear, self._functional.silu
        seen = self._normed(given, self._norms[0])
        query, key, value = (
            linear(seen, weight).view(1, _TOKENS, -1, _HEAD).transpose(1, 2)
            for weight in self._square[:3]
        )
        query, key = self._turned(query), self._turned(key)
        mixed = self._functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        mixed = mixed.transpose(1, 2).reshape(1, _TOKENS, -1)
        given = given + linear(mixed, self._square[3])
        seen = self._normed(given, self._norms[1])
        inner = silu(linear(seen, self._wide[0])) * linear(seen, self._wide[1])
        return given + linear(inner, self._narrow)

    def _normed(self, given: Any, weight: Any) -> Any:
        wide = given.float()
        wide = wide * self._torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
        return weight * wide.to(given.dtype)

    def _turned(self, given: Any) -> Any:
        first, second = given.chunk(2, dim=-1)
        return given * self._turn + self._torch.cat((-second, first), dim=-1) * self._turn


STEPS: "dict[str, Callable[[FirstUse], Iterator[Answer]]]" = {
    "import": FirstUse._import,
    "contexts": FirstUse._contexts,
    "kernel": FirstUse._kernel,
    "matmul": FirstUse._matmul,
    "matmul-everywhere": FirstUse._matmul_everywhere,
    "dtypes": FirstUse._dtypes,
    "attention": FirstUse._attention,
    "pinned": FirstUse._pinned,
    "empty": FirstUse._empty,
    "layer": FirstUse._layer,
    "graph": FirstUse._graph,
    "compile": FirstUse._compile,
}
NAMES = {
    "import": "import torch",
    "kernel": "first kernel",
    "matmul": "first matmul",
    "matmul-everywhere": "first matmul",
    "dtypes": "first matmul",
    "attention": "first scaled_dot_product_attention",
    "pinned": "first pinned memory",
    "empty": "empty kernel",
    "layer": "eager layer",
    "graph": "empty kernel in a graph",
    "compile": "torch.compile",
}
"""Variants of the figures, by step."""


def _timed(work: Callable[[], Any]) -> "tuple[float, Any]":
    start = time.perf_counter()
    answer = work()
    return time.perf_counter() - start, answer


def _lifeline(folder: Path) -> Any:
    """Load the module beside this script without adding the folder to sys.path."""
    spec = importlib.util.spec_from_file_location("lifeline", folder / "lifeline.py")
    if spec is None or spec.loader is None:
        raise ImportError(str(folder))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main(parent_pid: int, plan: "dict[str, Any]") -> int:
    """Run the steps of the plan, one answer on each line; output of C code goes to stderr."""
    here = Path(__file__).resolve().parent
    _lifeline(here.parents[1] / "runner").die_with_parent(parent_pid)
    sys.path[:] = [p for p in sys.path if os.path.realpath(p or os.getcwd()) != str(here)]
    answers_fd = os.dup(1)
    os.dup2(2, 1)
    os.set_inheritable(answers_fd, False)
    with os.fdopen(answers_fd, "wb", buffering=0) as answers:
        for answer in FirstUse(plan).answers():
            answers.write(json.dumps(answer, allow_nan=False).encode("ascii") + b"\n")
    return 0


if __name__ == "__main__":
    status = main(int(sys.argv[1]), json.loads(sys.argv[2]))
    sys.stderr.flush()
    # As in worker.py: destroying contexts takes time, and the kernel does it anyway.
    os._exit(status)

"""python -m tests.harness.beside [FILE]: what `gputop probe` says beside references of our own.

On a machine with at least one NVIDIA GPU, torch and triton. Products are held against Triton's
do_bench on operands of the same kind, the L2 against a kernel of Triton that goes round the first
cache (.cg), and layouts of training against other ways to the same: torch's older
FullyShardedDataParallel, and halves of products added up by hand; both timed by the clock of the
host. One line for each figure; FILE gets them as JSON.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

CUBE, SMALL, OWN = (8192, 8192, 8192), (4096, 4096, 4096), (4096, 14336, 4096)
RANKS, STEPS = 2, 20


def probed(*arguments: str) -> list[dict[str, Any]]:
    """The figures of `gputop probe ...`."""
    command = [sys.executable, "-m", "gputop", "probe", *arguments, "--json", "--force"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    document = json.loads(ran.stdout)
    found: list[dict[str, Any]] = document["measurements"]
    return found


def products() -> Iterator[tuple[str, float]]:
    """TFLOP/s, of int8 TOP/s, by the variant of the probe."""
    torch: Any = import_module("torch")
    bench: Callable[..., float] = import_module("triton.testing").do_bench
    for kind, (m, k, n) in (("int8", CUBE), ("fp64", SMALL), ("bf16", OWN), ("int8", OWN)):
        if kind == "int8":
            a = torch.randint(-128, 128, (m, k), dtype=torch.int8, device="cuda")
            b = torch.randint(-128, 128, (n, k), dtype=torch.int8, device="cuda").t()
            call, entry = (lambda a=a, b=b: torch._int_mm(a, b)), "int_mm"
        else:
            dtype = torch.float64 if kind == "fp64" else torch.bfloat16
            a = torch.randn(m, k, dtype=dtype, device="cuda")
            b = torch.randn(k, n, dtype=dtype, device="cuda")
            call, entry = (lambda a=a, b=b: a @ b), "matmul"
        took = bench(call, warmup=30, rep=200, return_mode="median")
        yield f"{kind} M{m} K{k} N{n} {entry}", 2 * m * k * n / took / 1e9


KERNEL = """
import triton, triton.language as tl
@triton.jit
def added(data, out, blocks, passes, BLOCK: tl.constexpr):
    program, programs = tl.program_id(0), tl.num_programs(0)
    total = tl.zeros((BLOCK,), tl.int32)
    for number in range(passes):
        for at in range((program + number) % programs, blocks, programs):
            place = at * BLOCK + tl.arange(0, BLOCK)
            total += tl.load(data + place, cache_modifier=".cg")
    tl.atomic_add(out, tl.sum(total))
"""


def l2(size_bytes: int) -> float:
    """GB/s that all multiprocessors read of an array, round the first cache."""
    torch: Any = import_module("torch")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "l2_reference.py").write_text(KERNEL)
        sys.path.insert(0, folder)
        added: Any = import_module("l2_reference").added
        data = torch.ones(size_bytes // 4, dtype=torch.int32, device="cuda")
        out = torch.zeros(1, dtype=torch.int32, device="cuda")
        count = torch.cuda.get_device_properties(0).multi_processor_count
        best, passes = 0.0, 256
        for each in (2, 4, 8):
            for block in (1024, 2048, 4096):
                blocks = data.numel() // block

                def call(each: int = each, block: int = block, blocks: int = blocks) -> None:
                    added[(count * each,)](data, out, blocks, passes, BLOCK=block, num_warps=8)

                took = import_module("triton.testing").do_bench(call, return_mode="median")
                best = max(best, blocks * block * 4 * passes / took / 1e6)
    return best


def _step_seconds(step: Callable[[], None], torch: Any) -> float:
    for _ in range(5):
        step()
    torch.distributed.barrier()
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(STEPS):
        step()
    torch.cuda.synchronize()
    return (time.perf_counter() - began) / STEPS


def rank(layout: str, place: int, folder: str) -> None:
    """One rank of the reference of a layout; it writes the seconds of a step."""
    os.environ |= {"NCCL_NVLS_ENABLE": "0"}
    torch: Any = import_module("torch")
    model_of: Any = import_module("gputop.probes.catalog.train_step.model")
    dist = torch.distributed
    torch.cuda.set_device(place)
    dist.init_process_group(
        "nccl", init_method=f"file://{folder}/met", rank=place, world_size=RANKS
    )
    stack = model_of.stacks({"level": "normal"}, cpu=False)[0]
    torch.manual_seed(1)
    model = model_of.build(torch, stack, f"cuda:{place}", torch.bfloat16)
    states = torch.randn(1, stack.sequence, stack.hidden, device="cuda", dtype=torch.bfloat16)
    states.requires_grad_(True)
    if layout == "fully sharded":
        fsdp: Any = import_module("torch.distributed.fsdp")
        wrap = import_module("torch.distributed.fsdp.wrap").ModuleWrapPolicy({type(model[0])})
        model = fsdp.FullyShardedDataParallel(model, auto_wrap_policy=wrap, device_id=place)
    else:
        _halves(torch, model, place)

    def step() -> None:
        model.zero_grad(set_to_none=True)
        states.grad = None
        model(states).float().square().mean().backward()

    took = _step_seconds(step, torch)
    Path(folder, f"{place}").write_text(repr(took))
    dist.destroy_process_group()


def _halves(torch: Any, model: Any, place: int) -> None:
    """Megatron's two functions by hand: what enters a layer's part, and what leaves it."""
    dist, nn = torch.distributed, torch.nn

    class Enter(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(context: Any, x: Any) -> Any:
            return x.view_as(x)

        @staticmethod
        def backward(context: Any, gradient: Any) -> Any:
            gradient = gradient.contiguous()
            dist.all_reduce(gradient)
            return gradient

    class Leave(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(context: Any, x: Any) -> Any:
            dist.all_reduce(x)
            return x

        @staticmethod
        def backward(context: Any, gradient: Any) -> Any:
            return gradient

    for layer in model:
        for name in ("query", "key", "value", "gate", "up", "out", "down"):
            dim = 1 if name in ("out", "down") else 0
            whole = getattr(layer, name).weight.data
            part = nn.Parameter(whole.chunk(RANKS, dim)[place].contiguous())
            getattr(layer, name).weight = part
        layer.norm.register_forward_hook(lambda module, given, came: Enter.apply(came))
        layer.ffn_norm.register_forward_hook(lambda module, given, came: Enter.apply(came))
        layer.out.register_forward_hook(lambda module, given, came: Leave.apply(came))
        layer.down.register_forward_hook(lambda module, given, came: Leave.apply(came))


def layouts() -> Iterator[tuple[str, float]]:
    """Model TFLOP/s of one GPU, by layout."""
    model_of: Any = import_module("gputop.probes.catalog.train_step.model")
    stack = model_of.stacks({"level": "normal"}, cpu=False)[0]
    for layout in ("fully sharded", "tensor parallel"):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "tests.harness.beside", "--rank", layout]
            ran = [subprocess.Popen([*command, str(place), folder]) for place in range(RANKS)]
            codes = [one.wait(120) for one in ran]
            if any(codes):
                continue
            took = statistics.mean(float(Path(folder, str(p)).read_text()) for p in range(RANKS))
            split = RANKS if layout == "tensor parallel" else 1
            yield layout, stack.step_flop / split / took / 1e12


def main(file: str) -> None:
    """Measure, print and keep."""
    torch: Any = import_module("torch")
    rows: list[tuple[str, float | None, float]] = []
    gemm = [
        *probed("gemm", "--gpus", "0"),
        *probed("gemm", "--gpus", "0", "--shape", "4096,14336,4096"),
    ]
    own = {one["variant"]: one["value"] for one in gemm}
    rows += [(name, own.get(name), figure) for name, figure in products()]
    memory = [one for one in probed("memory", "--gpus", "0") if one["quantity"] == "l2_read"]
    for one in memory:
        rows.append((f"L2, {one['bytes_per_copy']} bytes", one["value"], l2(one["bytes_per_copy"])))
    torch.cuda.empty_cache()
    if torch.cuda.device_count() >= RANKS:
        step = {one["variant"]: one["value"] for one in probed("train-step", "--gpus", "0,1")}
        rows += [(name, step.get(name), figure) for name, figure in layouts()]
    for name, ours, reference in rows:
        part = f"{ours / reference:.3f}" if ours else "no figure"
        print(f"{name:40} {ours or 0:10.1f} {reference:10.1f} {part}")
    if file:
        Path(file).write_text(json.dumps([torch.cuda.get_device_name(0), rows]))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rank"]:
        rank(sys.argv[2], int(sys.argv[3]), sys.argv[4])
    else:
        main(sys.argv[1] if sys.argv[1:] else "")

"""The train step: what it counts, what it computes, and a run of it on the CPU."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from gputop.probes.catalog.train_step import model as train_model
from gputop.probes.catalog.train_step import probe as train_step
from gputop.probes.catalog.train_step.layouts import NoLayout, TrainLayout, lay_out
from gputop.probes.catalog.train_step.model import (
    SMALLEST,
    Stack,
    attention_of,
    build,
    fitting,
    stacks,
)
from gputop.probes.catalog.train_step.probe import TrainMember, steps
from gputop.probes.crew.crew import Trouble
from gputop.probes.crew.steps import INIT, OPEN, Step
from gputop.probes.protocol.messages import DeviceRecord, MeasuredValue, WorkerRequest
from gputop.probes.protocol.outcome import Outcome
from gputop.probes.protocol.sizing import GIB
from gputop.probes.protocol.spec import ProbeStopped
from gputop.probes.protocol.status import Status
from tests.probes.late import flop_counter, torch
from tests.support.places import ROOT
from tests.support.probe_runs import run_probe

TINY = Stack(2, 24, batch=2, hidden=32, heads=4, kv_heads=2, head_dim=8, ffn=48)


def made(stack: Stack = TINY, seed: int = 3) -> Any:
    torch.manual_seed(seed)
    return build(torch, stack, "cpu", torch.float32)


def states_of(stack: Stack = TINY) -> Any:
    torch.manual_seed(4)
    return torch.randn(stack.batch, stack.sequence, stack.hidden, requires_grad=True)


def test_parameters_are_those_of_llama_3_8b() -> None:
    # 8,030,261,248 as published, less embedding, head (128256 x 4096 each) and the last norm.
    assert Stack(32, 8192).parameters == 8_030_261_248 - 2 * 128_256 * 4096 - 4096
    assert sum(p.numel() for p in made().parameters()) == TINY.parameters


def test_flop_of_a_token_by_hand() -> None:
    # 6 x 4 x 218,112,000 weights, 12 x 4 layers x 32 heads x 128 x 4096 tokens x half a mask.
    assert Stack(4, 4096).flop_per_token == 5_234_688_000 + 402_653_184
    twice = Stack(4, 4096, batch=2)
    assert twice.step_flop == 8192 * 5_637_341_184


@pytest.mark.grid
def test_every_product_that_is_counted_is_computed() -> None:
    counter = flop_counter.FlopCounterMode(display=False)
    model, states = made(), states_of()
    with counter:
        model(states).square().mean().backward()
    products = sum(
        flop for name, flop in counter.get_flop_counts()["Global"].items() if "mm" in str(name)
    )
    norms = TINY.layers * 2 * TINY.hidden
    assert products == 6 * (TINY.parameters - norms) * TINY.tokens


def test_a_token_sees_the_ones_before_it_and_their_order() -> None:
    model, states = made(), states_of().detach()
    before = model(states)
    later = states.clone()
    later[:, 20] += 1
    after = model(later)
    assert torch.equal(before[:, :20], after[:, :20])
    assert not torch.allclose(before[:, 20:], after[:, 20:])
    swapped = states.clone()
    swapped[:, [2, 5]] = states[:, [5, 2]]
    assert not torch.allclose(before[:, 20:], model(swapped)[:, 20:], atol=1e-6)


def test_old_versions_of_torch_compute_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = made()(states_of())
    monkeypatch.setattr(train_model, "attention_of", lambda *arguments: (False, None))
    monkeypatch.delattr(torch.nn.functional, "rms_norm")
    assert torch.allclose(usual, made()(states_of()), atol=1e-5)


@pytest.mark.parametrize(
    ("choices", "answer"),
    [
        ({True: 1, False: 1}, (True, "flash")),
        ({True: 0, False: 1}, (False, "flash")),  # groups by the plain kernel alone
        ({True: TypeError, False: 2}, (False, "memory-efficient")),  # torch before 2.5
        ({True: 0, False: 0}, (False, "plain")),
        ({True: AttributeError, False: AttributeError}, (False, None)),
        ({True: 3, False: 3}, (True, "cuDNN")),
        ({True: 77, False: 77}, (True, None)),
    ],
)
def test_attention_takes_groups_where_that_is_fast(
    choices: dict[bool, Any], answer: tuple[bool, str | None]
) -> None:
    def choice(*arguments: Any, enable_gqa: bool = False) -> int:
        found = choices[enable_gqa]
        if isinstance(found, int):
            return found
        raise found("no such thing")

    fake_torch = SimpleNamespace(empty=torch.empty, _fused_sdp_choice=choice)
    assert attention_of(fake_torch, TINY, "cpu", torch.float32) == answer


def test_less_memory_means_fewer_layers_first() -> None:
    wanted = Stack(4, 4096)
    assert fitting(wanted, wanted.memory_bytes) == wanted
    assert fitting(wanted, wanted.memory_bytes - 1) == Stack(2, 4096)
    assert fitting(wanted, Stack(1, 4096).memory_bytes) == Stack(1, 4096)
    assert fitting(wanted, SMALLEST.memory_bytes) == SMALLEST
    assert fitting(Stack(4, 8192), Stack(1, 8192).memory_bytes) == Stack(1, 8192)
    assert wanted.memory_bytes < 12 * GIB


def test_the_figures_of_levels_compare() -> None:
    quick, normal, full = (
        stacks({"level": level}, cpu=False) for level in ("quick", "normal", "full")
    )
    first = {
        (shapes[0].sequence, shapes[0].batch, shapes[0].hidden) for shapes in (quick, normal, full)
    }
    assert first == {(4096, 1, 4096)}
    assert [shape.sequence for shape in full] == [4096, 8192]
    with pytest.raises(ProbeStopped):
        stacks({"level": "endless"}, cpu=False)


def test_one_rank_has_nobody_to_train_with() -> None:
    assert [step.name for step in steps(1, {}, cpu=False)] == ["open", "alone"]
    found = [(step.name, step.variant) for step in steps(4, {"level": "full"}, cpu=False)]
    assert found == [
        ("open", ""), ("alone", "0"), ("alone", "1"), ("init", ""),
        ("together", "0 data parallel"), ("together", "1 data parallel"),
        ("together", "0 fully sharded"), ("together", "0 tensor parallel"),
    ]  # fmt: skip
    quick = [step.variant for step in steps(4, {"level": "quick"}, cpu=False)]
    assert quick == ["", "0", "", "0 data parallel"]


def member(group: Any = None, key: str = "0000:06:00.0") -> TrainMember:
    here = SimpleNamespace(kind="cpu", device="cpu", library="gloo")
    devices = (DeviceRecord("cpu:0", 0, "x"), DeviceRecord(key, 1, "x"))
    return TrainMember(here, group, None, devices, 1, None, train_step.SPEC, {})


def test_what_is_wrong_with_numbers_is_found() -> None:
    model = made()
    loss = model(states_of()).square().mean()
    loss.backward()
    assert member()._not_finite(loss, model) == ""
    assert "loss" in member()._not_finite(loss * float("nan"), model)
    model[0].down.weight.grad[0, 0] = float("inf")
    assert "gradients" in member()._not_finite(loss, model)
    for parameter in model.parameters():
        parameter.grad.zero_()
    assert "gradients" in member()._not_finite(loss, model)


def test_a_gradient_that_differs_between_ranks_is_found() -> None:
    model = made()
    model(states_of()).square().mean().backward()
    same = SimpleNamespace(broadcast=lambda tensor, root: lambda: None)
    assert member(same)._unequal(model) == ""
    asked: list[Any] = []

    def broadcast(tensor: Any, root: int) -> Callable[[], None]:
        def call() -> None:
            asked.append(tensor)
            if len(asked) == 4:  # the gradient of the second weight
                tensor.view(-1)[:3] += 1

        return call

    found = member(SimpleNamespace(broadcast=broadcast))._unequal(model)
    assert found == "rank 1: 3 weights or gradients differ from rank 0's"
    assert len(asked) == 2 * len(list(model.parameters()))


def test_training_together_that_fails_is_an_answer() -> None:
    crew: Any = SimpleNamespace(device_kind="gpu", library="NCCL")
    together = Step("together", "train step, all GPUs")
    for step in (together, INIT):
        found = train_step._answer(Trouble(Status.TIMED_OUT, "No end after 60 s.", step), crew)
        assert found is not None
        assert found.engine == "PyTorch, eager, NCCL"
        assert (found.verdict, found.variant, found.value) == ("timed-out", "data parallel", None)
    assert train_step._answer(Trouble(Status.FAILED, "out of memory", OPEN), crew) is None


def run(count: int, level: str) -> Outcome:
    params = {"device": "cpu", "count": count, "level": level}
    return run_probe(
        WorkerRequest("train-step", params=params), sys.executable, lambda message: None, 60.0,
        threading.Event(), torch=True,
    )  # fmt: skip


def figures(outcome: Outcome) -> dict[tuple[str, str], MeasuredValue]:
    assert outcome.status == "finished", outcome.message
    assert all(isinstance(m, MeasuredValue) for m in outcome.measurements)
    return {(m.variant, m.src): m for m in outcome.measurements}


def test_two_ranks_train_alone_and_in_every_layout() -> None:
    found = figures(run(2, "normal"))
    assert found.keys() == {
        ("one GPU", "cpu:0"), ("one GPU", "cpu:1"), *((str(layout), "") for layout in TrainLayout),
    }  # fmt: skip
    for (variant, _), m in found.items():
        assert (m.name, m.unit, m.verdict, m.why) == ("train_step", "TFLOP/s", "verified", None)
        assert m.value is not None
        ranks = 2 if variant in ("data parallel", "fully sharded") else 1
        details = m.details
        tokens = details["sequence"] * details["batch"]
        own = 0.5 if variant == "tensor parallel" else 1  # of the products of its tokens
        assert m.value == pytest.approx(
            own * tokens * details["flop_per_token"] / details["step_ms"] / 1e9, rel=1e-2
        )
        assert details["tokens_per_second"] == pytest.approx(
            ranks * tokens / details["step_ms"] * 1000, rel=1e-2
        )
    together = found["data parallel", ""].details
    assert (together["ranks"], together["library"]) == (2, "gloo")
    assert together["gradient_bytes"] == 4 * together["parameters"]
    slowest = min((m.value or 0.0, key) for (_, key), m in found.items() if key)
    assert together["slowest_alone"] == slowest[1]


def test_three_ranks_cannot_split_two_heads() -> None:
    torch_device = torch.device("cpu")
    with pytest.raises(NoLayout, match="2 heads of keys cannot be split over 3 GPUs"):
        lay_out(torch, TrainLayout.TENSOR, made(), torch_device, 3, TINY)
    old = SimpleNamespace(__version__="2.1")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("importlib.import_module", raising)
        with pytest.raises(NoLayout, match=r"torch 2\.1 has no fully_shard"):
            lay_out(old, TrainLayout.SHARDED, made(), torch_device, 2, TINY)


def raising(name: str) -> Any:
    raise ImportError(name)


def test_a_layout_that_computes_something_else_is_found() -> None:
    model = made()
    loss = model(states_of()).square().mean()
    loss.backward()
    whole = model[-1].down.weight.grad.clone()
    own = member()  # the second of two ranks
    part = torch.nn.Parameter(model[-1].down.weight.data.chunk(2, 1)[1].contiguous())
    part.grad = whole.chunk(2, 1)[1].contiguous()
    model[-1].down.weight = part

    def wrong(loss: Any, gradient: Any = whole) -> str:
        return own._unlike(TrainLayout.TENSOR, loss, model, (right, gradient))

    right = loss.detach()
    assert wrong(loss) == ""
    assert "the loss is" in wrong(loss * 1.1)
    assert "the gradient is" in wrong(loss, whole * float("nan"))
    model[-1].down.weight.grad[:16] = 0
    assert "the gradient is" in wrong(loss)


def test_one_rank_says_that_it_is_alone() -> None:
    outcome = run(1, "full")
    found = figures(outcome)
    assert found.keys() == {("one GPU", "cpu:0"), ("one GPU, sequence 64", "cpu:0")}
    assert "nothing else running" in found["one GPU", "cpu:0"].direction
    assert [note.topic for note in outcome.notes if note.topic == "train-step"] == ["train-step"]


PARALLEL = """
import sys, threading
from gputop.probes.devices.opening import import_torch
torch = import_torch(sys.argv[1:])
before = {name for name in sys.modules if name.startswith("torch._dynamo")}
threads = threading.active_count()
store = torch.distributed.HashStore()
torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
print(len(before), threads, "torch._dynamo" in sys.modules)
"""


def said(*parts: str) -> list[str]:
    command = [sys.executable, "-c", PARALLEL, *parts]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    return ran.stdout.split()


@pytest.mark.grid
def test_data_parallel_imports_late() -> None:
    assert said() == ["0", "1", "True"], "else `imports` of the probe is of no use"


def test_what_data_parallel_imports_late_is_imported_by_the_worker_without_a_thread() -> None:
    loaded, threads, _ = said(*train_step.SPEC.imports, "no_such_part")
    assert int(loaded) > 10
    assert threads == "1", "the worker could not fork its probes"

"""A train step: forward and backward of a few transformer layers, alone and in three layouts.

The layers are those of Llama 3 8B in bf16, without embedding, vocabulary head and optimizer. They
run in eager PyTorch, because torch.compile takes a minute before its first step and its gain
depends on the version, not on the machine.
"""

import gc
import importlib
import json
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any, Optional

from ...crew.crew import Crew, Trouble
from ...crew.probe import run_crew
from ...crew.rank import Member
from ...crew.steps import INIT, MIB, OPEN, Step
from ...crew.torch_accelerator import TorchAccelerator
from ...devices.opening import drop_overruled_variables
from ...devices.sensors import Sensors
from ...protocol.messages import MeasuredValue, Message, Note, WorkerRequest
from ...protocol.quantity import Quantity
from ...protocol.spec import ProbeSpec, level_of
from ...protocol.status import DeviceKind
from .layouts import TOLERANCE, WATCHED, NoLayout, TrainLayout, compared, lay_out, own_part
from .model import SMALLEST, Stack, attention_of, build, fitting, stacks

ALONE, TOGETHER = "alone", "together"
_IN_COMMON = {
    TrainLayout.DATA: "all GPUs, gradients in common",
    TrainLayout.SHARDED: "all GPUs, each with a part of the weights",
    TrainLayout.TENSOR: "all GPUs, each with a part of every product",
}
TRAIN_STEP = Quantity(
    "train_step",
    "",
    unit="TFLOP/s",
    counted="model floating point operations of one GPU, forward and backward",
)
_SECONDS = {"quick": 0.6, "normal": 1.5, "full": 3.0}
_CPU_SECONDS = 0.05
_WARM_SECONDS = 0.3
"""Clocks take 0.2 to 0.5 s to wake."""
_FIRST_STEPS = 3
"""The first step loads libraries; DistributedDataParallel rebuilds its buckets in the second."""
_FEWEST, _MOST = 5, 200

Work = Callable[[], Any]


def steps(ranks: int, params: Mapping[str, Any], cpu: bool) -> "tuple[Step, ...]":
    """Each rank alone with every stack of the level, then all ranks in every layout.

    All stacks run data parallel, the first one also sharded and split, but at the quick level.
    """
    wanted = tuple(enumerate(stacks(params, cpu=cpu)))
    found = [OPEN]
    for place, stack in wanted:
        what = f"train step of {stack.sequence} tokens, each GPU alone"
        found.append(Step(ALONE, what, first=place == 0, variant=str(place)))
    if ranks == 1:
        return tuple(found)
    layouts = [(TrainLayout.DATA, *one) for one in wanted]
    if level_of(params) != "quick":
        layouts += [(layout, *wanted[0]) for layout in (TrainLayout.SHARDED, TrainLayout.TENSOR)]
    found.append(INIT)
    for layout, place, stack in layouts:
        what = f"train step of {stack.sequence} tokens, {_IN_COMMON[layout]}"
        found.append(Step(TOGETHER, what, first=place == 0, variant=f"{place} {layout}"))
    return tuple(found)


class TrainMember(Member):
    """One rank of the train step."""

    here: TorchAccelerator

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._torch: Any = importlib.import_module("torch")
        self._cpu = self.here.kind == DeviceKind.CPU
        # gloo cannot add bf16 in older versions of torch.
        self._dtype = self._torch.float32 if self._cpu else self._torch.bfloat16
        self._level = level_of(self.params)
        self._key = self.devices[self.rank].key
        self._address = self.devices[self.rank].pci_address
        self._sensors = Sensors([self._address])
        self._alone_tflops: dict[str, list[float]] = {}

    def needed_bytes(self) -> int:
        """Memory of the smallest stack; a larger one is reduced until it fits."""
        return SMALLEST.memory_bytes

    def take(self, step: Step) -> None:
        """Do one step and report it."""
        if step.name == INIT.name:
            self.group.open(eager=True)
            return
        place, _, kind = step.variant.partition(" ")
        stack, layout = self._stack(int(place)), TrainLayout(kind) if kind else None
        self._release()
        torch = self._torch
        # Other weights and inputs on each rank, unless the layout is of one model or one input.
        torch.manual_seed(1000 + (0 if layout and layout.same_weights else self.rank))
        model = build(torch, stack, self.here.device, self._dtype)
        torch.manual_seed(2000 + (0 if layout and layout.same_input else self.rank))
        shape = (stack.batch, stack.sequence, stack.hidden)
        states = torch.randn(shape, device=self.here.device, dtype=self._dtype)
        states.requires_grad_(True)
        if layout is None:
            self._alone(step, stack, model, states)
            return
        try:
            self._together(step, stack, layout, model, states)
        except NoLayout as answer:
            if self.rank == 0:
                self.emit(Note("train-layout", f"No figure for {layout}: {answer}."))

    def _stack(self, place: int) -> Stack:
        """The stack that fits on the fullest GPU, the same in every rank."""
        wanted = stacks(self.params, cpu=self._cpu)[place]
        if self._cpu:
            return wanted
        room = min((d.free_bytes or 0) - self.reserve_bytes(d) for d in self.devices)
        return fitting(wanted, room)

    def _release(self) -> None:
        gc.collect()  # DistributedDataParallel and its hooks hold each other
        if not self._cpu:
            self._torch.cuda.empty_cache()
            self._torch.cuda.reset_peak_memory_stats()

    def _alone(self, step: Step, stack: Stack, model: Any, states: Any) -> None:
        work = self._work(model, states)
        once = self._first_seconds(work)
        self.meet(f"start/{step.variant}")  # all at once: heat and power as when they train
        loss, times, seen = self._timed(work, once)
        wrong = self._not_finite(loss, model)
        answers = self.share(
            f"alone/{step.variant}", repr(_tflops(stack, statistics.median(times)))
        )
        self._alone_tflops[step.variant] = [float(text) for text in answers]
        others = "while the other GPUs do the same" if self.ranks > 1 else "nothing else running"
        self._figure(
            stack, times, seen, self._key, "one GPU",
            f"{self._key} computes forward and backward, {others}", wrong,
            tokens_per_second=_tokens_per_second(stack, times, 1),
            attention=attention_of(self._torch, stack, self.here.device, self._dtype)[1],
        )  # fmt: skip
        if step.first and self.rank == 0:
            self._say_what_is_odd(stack)

    def _say_what_is_odd(self, stack: Stack) -> None:
        if self.ranks == 1:
            text = "One GPU: there is nobody to share gradients with, so no data parallel figure."
            self.emit(Note("train-step", text))
        wanted = stacks(self.params, cpu=self._cpu)[0]
        if stack != wanted:
            text = (
                f"Free memory holds {stack.layers} layers of {stack.sequence} tokens, not "
                f"{wanted.layers} of {wanted.sequence}: a shorter sequence computes less at once."
            )
            self.emit(Note("train-memory", text))

    def _together(
        self, step: Step, stack: Stack, layout: TrainLayout, model: Any, states: Any
    ) -> None:  # fmt: skip
        expected = None if layout is TrainLayout.DATA else self._expected(model, states, layout)
        parallel = lay_out(
            self._torch, layout, model, self.here.torch_device(), self.ranks, stack
        )  # fmt: skip
        work = self._work(parallel, states)
        # Every rank takes as many steps; the first steps of rank 0 decide.
        once = float(self.share(f"once/{step.variant}", repr(self._first_seconds(work)))[0])
        loss, times, seen = self._timed(work, once)
        # Every rank does both checks, because the second one waits for all.
        found = (
            self._not_finite(loss, model),
            self._unequal(model)
            if expected is None
            else self._unlike(layout, loss, model, expected),
        )
        answers = self.share(f"end/{step.variant}", json.dumps([times, *found]))
        if self.rank != 0:
            return
        all_times, *why = zip(*(json.loads(text) for text in answers))
        wrong = next((text for texts in why for text in texts if text), "")
        times = max(all_times, key=statistics.median)
        alone = self._alone_tflops[step.variant.partition(" ")[0]]
        inputs = 1 if layout.same_input else self.ranks
        tflops = _tflops(stack, statistics.median(times), self.ranks // inputs)
        self._figure(
            stack, times, seen, "", layout,
            f"{self.ranks} GPUs compute forward and backward, {self.here.library} "
            f"{layout.meanwhile}", wrong, split_over=self.ranks // inputs,
            tokens_per_second=_tokens_per_second(stack, times, inputs),
            ranks=self.ranks,
            sensors_of=self._key,
            part_of_slowest_alone=round(tflops / min(alone), 4),
            slowest_alone=self.devices[alone.index(min(alone))].key,
            gradient_bytes=stack.parameters * (4 if self._cpu else 2),
            library=self.here.library,
            variables=self.params.get("variables", {}),
        )  # fmt: skip

    def _work(self, model: Any, states: Any) -> Work:
        """Train one step and return the loss."""

        def once() -> Any:
            model.zero_grad(set_to_none=True)
            states.grad = None
            loss = model(states).float().square().mean()
            loss.backward()
            return loss

        return once

    def _first_seconds(self, work: Work) -> float:
        """The duration of the last of a few first steps."""
        for _ in range(_FIRST_STEPS - 1):
            work()
        self.here.wait()
        started = time.perf_counter()
        work()
        self.here.wait()
        return time.perf_counter() - started

    def _timed(self, work: Work, once_seconds: float) -> "tuple[Any, list[float], dict[str, Any]]":
        """The last loss, the milliseconds of each step, and what the sensors saw meanwhile."""
        lasts = max(once_seconds, 1e-4)
        budget = _CPU_SECONDS if self._cpu else _SECONDS[self._level]
        for _ in range(min(_MOST, int(0 if self._cpu else _WARM_SECONDS / lasts))):
            work()
        count = max(_FEWEST, min(_MOST, int(budget / lasts)))
        with self._sensors.watching(self._address) as watched:
            marks = [self._mark()]
            for _ in range(count):
                loss = work()
                marks.append(self._mark())
            self.here.wait()
        times = [self._between(begin, two) for begin, two in zip(marks, marks[1:])]
        return loss, times, watched.summary()

    def _mark(self) -> Any:
        """A moment on the clock of the device."""
        if self._cpu:
            return time.perf_counter()
        event = self._torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def _between(self, before: Any, after: Any) -> float:
        return (after - before) * 1000 if self._cpu else float(before.elapsed_time(after))

    def _not_finite(self, loss: Any, model: Any) -> str:
        """What is wrong with loss or gradients; "" if nothing is."""
        if not bool(self._torch.isfinite(loss)):
            return f"rank {self.rank}: the loss is not finite"
        norm = self._torch.linalg.vector_norm
        gradients = [own_part(parameter.grad) for parameter in model.parameters()]
        size = sum(float(norm(g, dtype=self._torch.float32).item()) for g in gradients)
        if not 0 < size < float("inf"):
            return f"rank {self.rank}: the gradients are zero or not finite"
        return ""

    def _expected(self, model: Any, states: Any, layout: TrainLayout) -> "tuple[Any, Any]":
        """The loss and the last product's gradient that the whole model gives, of all ranks."""
        loss = self._work(model, states)()
        gradient = getattr(model[-1], WATCHED).weight.grad.float()
        if not layout.same_input:
            self.group.all_reduce(gradient)()
            gradient /= self.ranks
        model.zero_grad(set_to_none=True)
        return loss.detach(), gradient

    def _unlike(
        self, layout: TrainLayout, loss: Any, model: Any, expected: "tuple[Any, Any]"
    ) -> str:  # fmt: skip
        """How loss or gradient differ from those of the whole model; "" if they do not."""
        gradient = getattr(model[-1], WATCHED).weight.grad
        parts = compared(layout, gradient, expected[1], self.rank, self.ranks)
        for what, came, whole_one in (
            ("loss", loss.detach(), expected[0]), ("gradient", parts[0].float(), parts[1]),
        ):  # fmt: skip
            norm = self._torch.linalg.vector_norm
            off = float((norm(came - whole_one) / norm(whole_one)).item())
            if not off <= TOLERANCE:  # a NaN is wrong too
                return f"rank {self.rank}: the {what} is {off:.0%} off that of the whole model"
        return ""

    def _unequal(self, model: Any) -> str:
        """Whether any number of a weight or gradient differs from rank 0."""
        bad = 0
        for parameter in model.parameters():
            for mine in (parameter.detach(), parameter.grad):
                first = mine.clone()
                self.group.broadcast(first, 0)()
                bad += int((first != mine).sum().item())
        return f"rank {self.rank}: {bad} weights or gradients differ from rank 0's" if bad else ""

    def _figure(
        self, stack: Stack, times: "list[float]", seen: "dict[str, Any]", src: str,
        variant: str, direction: str, wrong: str, split_over: int = 1, **more: Any,
    ) -> None:  # fmt: skip
        median_ms = statistics.median(times)
        details: dict[str, Any] = {
            "step_ms": round(median_ms, 4), "steps": len(times), "layers": stack.layers,
            "sequence": stack.sequence, "batch": stack.batch, "parameters": stack.parameters,
            "flop_per_token": stack.flop_per_token, "compiled": False,
            "dtype": "fp32" if self._cpu else "bf16", **seen, **more,
        }  # fmt: skip
        if not self._cpu:
            details["memory_peak_mib"] = self._torch.cuda.max_memory_allocated() // MIB
        usual = stacks(self.params, cpu=self._cpu)[0].sequence
        self.emit(
            MeasuredValue(
                name=TRAIN_STEP.key,
                src=src,
                dst="",
                method=self.spec.method,
                device_kind=DeviceKind.CPU if self._cpu else DeviceKind.GPU,
                engine="PyTorch, eager" + (f", {self.here.library}" if not src else ""),
                direction=direction,
                verdict="wrong-data" if wrong else "verified",
                why=wrong or None,
                value=_tflops(stack, median_ms, split_over),
                unit=TRAIN_STEP.unit,
                minimum=_tflops(stack, max(times), split_over),
                maximum=_tflops(stack, min(times), split_over),
                variant=variant if stack.sequence == usual else
                f"{variant}, sequence {stack.sequence}",
                counted=TRAIN_STEP.counted,
                details=details,
            )
        )  # fmt: skip


def _tflops(stack: Stack, milliseconds: float, split_over: int = 1) -> float:
    """10^12 model FLOP per second on each GPU, five digits; `split_over`: GPUs for one input."""
    return float(f"{stack.step_flop / split_over / milliseconds / 1e9:.5g}")


def _tokens_per_second(stack: Stack, times: "list[float]", ranks: int) -> float:
    """Tokens per second of all GPUs; `times` in milliseconds."""
    return round(ranks * stack.tokens / statistics.median(times) * 1000, 1)


SPEC = ProbeSpec(
    name="train-step",
    title="Train step",
    measures=(
        "Model TFLOP/s and tokens per second of Llama-like layers in bf16, forward and backward: "
        "each GPU alone, then data parallel with gradients added up during the backward pass, "
        "fully sharded, and tensor parallel."
    ),
    method="train-step/1",
    minimum_gpus=1,
    memory_bytes_per_gpu=Stack(layers=4, sequence=4096).memory_bytes,
    start_seconds=6.0,
    seconds_per_gpu=0.2,
    seconds_per_pair=0.0,
    seconds_alone=9.0,
    level_factors={"quick": 0.39, "normal": 1.0, "full": 2.5},
    loads=("links", "memory", "compute"),
    imports=("_dynamo",),  # DistributedDataParallel asks it for its settings
    quantities=(TRAIN_STEP,),
)

Emit = Callable[[Message], None]


def run(request: WorkerRequest, emit: Emit) -> None:
    """Run all ranks; each rank also enters here. ProbeStopped if they do not reach the end."""
    dropped = drop_overruled_variables()
    if dropped:
        emit(Note("environment", f"Left out for this run: {', '.join(dropped)}."))
    run_crew(request, emit, SPEC, steps, TrainMember, answer=_answer)


def _answer(trouble: Trouble, crew: Crew) -> Optional[MeasuredValue]:
    """Report as a figure that training together does not end."""
    layout = trouble.step.variant.partition(" ")[2] or TrainLayout.DATA
    if trouble.step.name not in (TOGETHER, "init"):
        return None
    return MeasuredValue(
        name=TRAIN_STEP.key,
        src="",
        dst="",
        method=SPEC.method,
        device_kind=crew.device_kind,
        engine=f"PyTorch, eager, {crew.library}",
        direction=trouble.step.what,
        verdict=trouble.error,
        why=trouble.text,
        variant=layout,
    )

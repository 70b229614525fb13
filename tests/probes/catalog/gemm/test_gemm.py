"""Matrix multiplication: which cases, whether their numbers are right, what is said of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gputop.probes.catalog.gemm import probe as gemm
from gputop.probes.catalog.gemm.bench import FLUSH_BYTES
from gputop.probes.catalog.gemm.cases import (
    BF16,
    CUBE,
    FP8,
    FP32,
    LIBRARY_BYTES,
    SHAPES,
    Entry,
    Multiplication,
    NumberType,
    asked_shape,
    cases,
    fitting,
)
from gputop.probes.catalog.gemm.probe import plan, room_bytes
from gputop.probes.catalog.gemm.work import Multiplier, Unsupported, judged, precision
from gputop.probes.protocol.messages import (
    DeviceRecord,
    Hello,
    MeasuredValue,
    Message,
    Note,
    WorkerRequest,
    decode,
    encode,
)
from gputop.probes.protocol.sizing import GIB, MIB
from gputop.probes.protocol.spec import ProbeStopped
from tests.probes.late import torch

TINY = Multiplication(FP32, 48, 40, 24, Entry.MATMUL)


def test_levels_grow_and_every_type_is_timed() -> None:
    quick, normal, full = (cases(level) for level in ("quick", "normal", "full"))
    assert set(quick) < set(normal) < set(full)
    assert {case.dtype for case in quick} == {"bf16", "fp8"}
    assert {case.entry for case in quick} == {"matmul", "scaled_mm"}
    at_cube = {case.dtype for case in normal if (case.m, case.k, case.n) == CUBE}
    assert at_cube == {"bf16", "fp16", "tf32", "fp32", "fp8", "int8"}
    assert [(case.dtype, case.m) for case in normal[-2:]] == [("int8", 8192), ("fp64", 4096)]
    linear = {(case.m, case.k, case.n) for case in normal if case.entry == "linear"}
    assert linear == set(SHAPES)
    assert len(full) == len(set(full)) == 4 * 5 * 2 + 5 * 2 + 2
    # A power-limited clock depends on what ran before: the references alternate like this.
    assert [case.dtype for case in normal[:4]] == ["bf16", "fp8", "bf16", "fp8"]
    assert normal[0].m == normal[1].m
    assert normal[0].k == normal[1].k


def test_operations_and_memory_of_a_shape() -> None:
    case = Multiplication(BF16, 16384, 8192, 1280, Entry.MATMUL)
    assert case.name == "bf16 M16384 K8192 N1280 matmul"
    assert case.flop == 343_597_383_680
    assert case.tflops(0.4772) == pytest.approx(720.0, rel=1e-3)  # the seed's 0.48 ms
    operands = 2 * (16384 * 8192 + 8192 * 1280 + 16384 * 1280)
    assert operands < case.memory_bytes < operands + 128 * MIB


def test_every_level_fits_what_the_list_promises() -> None:
    most = max(case.memory_bytes for case in cases("full"))
    assert most + FLUSH_BYTES + LIBRARY_BYTES <= gemm.SPEC.memory_bytes_per_gpu


def device(free_bytes: int, total_bytes: int = 24 * GIB) -> DeviceRecord:
    return DeviceRecord("0000:06:00.0", 0, "A GPU", memory_bytes=total_bytes, free_bytes=free_bytes)


def planned(
    free_gib: int, wanted: tuple[Multiplication, ...], said: list[Message], *, forced: bool
) -> tuple[Multiplication, ...]:
    it = device(free_gib * GIB)
    return plan(it, wanted, room_bytes(it, "gpu", forced=forced), said.append)


def test_a_full_gpu_takes_less_or_is_refused() -> None:
    said: list[Message] = []
    wanted = cases("full")
    plan = planned(20, wanted, said, forced=False)
    assert (plan, said) == (wanted, [])
    plan = planned(6, wanted, said, forced=False)
    assert 0 < len(plan) < len(wanted)
    assert isinstance(said[0], Note)
    assert len(said[0].details["left_out"]) == len(wanted) - len(plan)
    with pytest.raises(ProbeStopped) as caught:
        planned(5, wanted, said, forced=False)
    assert caught.value.error == "refused"
    assert planned(5, wanted, said, forced=True) == wanted
    small, dropped = fitting(cases("quick"), lambda case: case.m <= 4096)
    assert {case.m for case in small} == {4096}
    assert dropped == cases("quick")


def test_a_shape_of_ones_own_is_the_only_one() -> None:
    own = (4096, 512, 96)
    for level, types in (("quick", {"bf16", "fp8"}), ("normal", set(NumberType))):
        found = cases(level, shape=own)
        assert {(case.m, case.k, case.n) for case in found} == {own}
        assert {case.dtype for case in found} >= types
    assert asked_shape({"shape": [4096, 512, 96]}) == own
    assert asked_shape({}) is None
    wrong: tuple[object, ...] = (
        "4096",
        [1, 2],
        [1, 2, 0],
        [1, 2, True],
        [1, 2, 1.5],
        [1, 2, 1 << 21],
    )
    for sizes in wrong:
        with pytest.raises(ProbeStopped) as refused:
            asked_shape({"shape": sizes})
        assert refused.value.error == "refused"
    it, said = device(6 * GIB), list[Message]()
    wanted, room = cases("quick", shape=(1 << 17, 1 << 17, 64)), room_bytes(it, "gpu", forced=False)
    with pytest.raises(ProbeStopped):  # not another, smaller one
        plan(it, wanted, room, said.append, smaller=False)


@pytest.mark.parametrize("case", cases("normal", cpu=True)[-2:], ids=lambda case: case.dtype)
def test_whole_numbers_and_double_precision_are_checked(case: Multiplication) -> None:
    multiplier = Multiplier(torch, "cpu")
    work = multiplier.prepare(case)

    def one_off() -> Any:
        out = work()
        out[0, 0] += 1
        return out

    assert judged(case.dtype, multiplier.relative_error(case, work)) == ("verified", None)
    assert judged(case.dtype, multiplier.relative_error(case, one_off))[0] == "wrong-data"


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
@pytest.mark.parametrize("entry", ["matmul", "linear"])
def test_numbers_are_checked(dtype: str, entry: str) -> None:
    case = Multiplication(NumberType(dtype), 48, 40, 24, Entry(entry))
    multiplier = Multiplier(torch, "cpu")
    work = multiplier.prepare(case)
    assert work().shape == (48, 24)
    assert judged(dtype, multiplier.relative_error(case, work)) == ("verified", None)
    for wrong in (lambda: work().flip(0), lambda: 0 * work(), lambda: work() / 0):
        assert judged(dtype, multiplier.relative_error(case, wrong))[0] == "wrong-data"


def test_a_wrong_block_of_columns_is_found() -> None:
    case = Multiplication(FP32, 16, 8, 3000, Entry.MATMUL)
    multiplier = Multiplier(torch, "cpu")
    work = multiplier.prepare(case)

    def damaged() -> Any:
        out = work()
        out[:, 2900:] = 0
        return out

    assert multiplier.relative_error(case, work) < 1e-6
    assert judged("fp32", multiplier.relative_error(case, damaged))[0] == "wrong-data"


def test_inputs_are_normally_distributed() -> None:
    multiplier = Multiplier(torch, "cpu")
    multiplier.prepare(Multiplication(FP32, 300, 200, 100, Entry.MATMUL))
    assert float(multiplier._a.std()) == pytest.approx(1.0, abs=0.05)
    assert float(multiplier._b.mean()) == pytest.approx(0.0, abs=0.05)


@pytest.mark.parametrize("knows_fast", [True, False])
@pytest.mark.parametrize("gives_tuple", [True, False])
def test_every_signature_of_scaled_mm_serves(
    monkeypatch: pytest.MonkeyPatch, knows_fast: bool, gives_tuple: bool
) -> None:
    asked: list[dict[str, Any]] = []

    def scaled_mm(a: Any, b: Any, *, scale_a: Any, scale_b: Any, **more: Any) -> Any:
        if "use_fast_accum" in more and not knows_fast:
            raise TypeError("_scaled_mm() got an unexpected keyword argument 'use_fast_accum'")
        assert b.stride() == (1, a.shape[1])  # column-major, as the libraries want it
        asked.append(more)
        made = ((a.float() * scale_a) @ (b.float() * scale_b)).to(more["out_dtype"])
        return (made, made.abs().max()) if gives_tuple else made

    monkeypatch.setattr(torch, "_scaled_mm", scaled_mm)
    multiplier, case = Multiplier(torch, "cpu"), Multiplication(FP8, 32, 64, 16, Entry.SCALED)
    work = multiplier.prepare(case)
    assert judged("fp8", multiplier.relative_error(case, work)) == ("verified", None)
    assert not any("use_fast_accum" in more for more in asked)
    fast = Multiplication(FP8, 32, 64, 16, Entry.SCALED_FAST)
    if not knows_fast:
        with pytest.raises(Unsupported, match="use_fast_accum"):
            multiplier.prepare(fast)
        return
    asked.clear()
    multiplier.prepare(fast)
    assert asked
    assert all(more["use_fast_accum"] for more in asked)


def test_what_torch_refuses_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def scaled_mm(*operands: Any, **more: Any) -> Any:
        raise RuntimeError("only supported on devices of tomorrow")

    monkeypatch.setattr(torch, "_scaled_mm", scaled_mm)
    with pytest.raises(Unsupported, match="tomorrow"):
        Multiplier(torch, "cpu").prepare(Multiplication(FP8, 32, 64, 16, Entry.SCALED))


def told_torch(capability: tuple[int, int] = (9, 0), arch: str = "", blas: str = "Cublas") -> Any:
    """What a torch says of its device."""
    return SimpleNamespace(
        __version__="2.4.0",
        Generator=lambda device: SimpleNamespace(manual_seed=lambda seed: None),
        version=SimpleNamespace(hip="6.2" if arch else None),
        cuda=SimpleNamespace(
            get_device_capability=lambda device: capability,
            get_device_properties=lambda device: SimpleNamespace(gcnArchName=arch + ":sramecc+"),
        ),
        backends=SimpleNamespace(
            cuda=SimpleNamespace(preferred_blas_library=lambda: f"_BlasBackend.{blas}")
        ),
        float8_e4m3fn="fn",
        float8_e4m3fnuz="fnuz",
        _scaled_mm=None,
    )


@pytest.mark.parametrize(
    ("properties", "has"),
    [
        (told_torch((7, 0)), {"fp16", "fp32"}),
        (told_torch((8, 0)), {"bf16", "fp16", "tf32", "fp32"}),
        (told_torch((8, 9)), {"bf16", "fp16", "tf32", "fp32", "fp8"}),
        (told_torch((9, 0)), {"bf16", "fp16", "tf32", "fp32", "fp8"}),
        (told_torch(arch="gfx90a"), {"bf16", "fp16", "fp32"}),
        (told_torch(arch="gfx942"), {"bf16", "fp16", "tf32", "fp32", "fp8"}),
        (told_torch(arch="gfx950"), {"bf16", "fp16", "fp32", "fp8"}),
    ],
)
def test_types_that_a_device_has(properties: Any, has: set[str]) -> None:
    multiplier = Multiplier(properties, "cuda:0")
    types = ("bf16", "fp16", "tf32", "fp32", "fp8")
    assert {dtype for dtype in types if not multiplier._missing(dtype)} == has


def test_mi300_has_its_own_float8() -> None:
    assert Multiplier(told_torch(arch="gfx942"), "cuda:0")._float8() == "fnuz"
    assert Multiplier(told_torch(arch="gfx950"), "cuda:0")._float8() == "fn"
    assert Multiplier(told_torch(), "cuda:0")._float8() == "fn"


def test_the_library_is_named_or_not_known() -> None:
    scaled = Multiplication(FP8, 1, 1, 1, Entry.SCALED)
    assert Multiplier(told_torch(), "cuda:0").library(TINY) == "cuBLAS"
    assert Multiplier(told_torch(), "cuda:0").library(scaled) == "cuBLASLt"
    rocm = Multiplier(told_torch(arch="gfx942", blas="Cublaslt"), "cuda:0")
    assert (rocm.library(TINY), rocm.library(scaled)) == ("hipBLASLt", "hipBLASLt")
    assert Multiplier(told_torch(blas="New"), "cuda:0").library(TINY) is None
    old = told_torch()
    del old.backends.cuda.preferred_blas_library
    assert Multiplier(old, "cuda:0").library(TINY) is None


def test_tf32_is_on_for_its_case_alone() -> None:
    switch = torch.backends.cuda.matmul
    before = switch.allow_tf32
    for dtype, expected in (("tf32", True), ("fp32", False), ("bf16", False)):
        with precision(torch, dtype):
            assert switch.allow_tf32 is expected
        assert switch.allow_tf32 is before
    with pytest.raises(KeyError), precision(torch, "tf32"):
        raise KeyError
    assert switch.allow_tf32 is before


def test_the_numbers_say_which_precision_ran() -> None:
    assert judged("tf32", 4e-4) == ("verified", None)
    assert judged("fp32", 2e-6) == ("verified", None)
    verdict, why = judged("tf32", 2e-6)
    assert (verdict, "as fp32" in (why or "")) == ("", True)
    verdict, why = judged("fp32", 4e-4)
    assert (verdict, "TF32's" in (why or "")) == ("", True)
    assert judged("fp32", 1.0) == ("wrong-data", None)
    assert judged("bf16", float("nan")) == ("wrong-data", None)


def last(said: list[Message]) -> list[MeasuredValue]:
    """The last figure of each device and case: the time comes first, the verdict later."""
    figures = [m for m in said if isinstance(m, MeasuredValue)]
    return list({(m.src, m.variant): m for m in figures}.values())


@pytest.mark.grid
def test_the_self_test_answers_with_typed_figures() -> None:
    said: list[Message] = []
    params = {"device": "cpu", "count": 2, "level": "normal"}
    gemm.run(WorkerRequest("gemm", params=params), said.append)
    assert [decode(encode(message)) for message in said] == said
    assert next(m for m in said if isinstance(m, Hello)).device_kind == "cpu"
    found = last(said)
    assert {m.src for m in found} == {"cpu:0", "cpu:1"}
    assert {(m.name, m.dst, m.unit, m.device_kind) for m in found} == {
        ("gemm", "", "TFLOP/s", "cpu")
    }
    figures = [m for m in found if m.value is not None]
    assert {"bf16", "fp32"} <= {m.details["dtype"] for m in figures}
    for m in figures:
        assert m.verdict == "verified"
        assert None not in (m.minimum, m.maximum, m.value)
        assert 0 < (m.minimum or 0) <= (m.value or 0) <= (m.maximum or 0)
        work = 2 * m.details["m"] * m.details["n"] * m.details["k"]
        assert m.value == pytest.approx(work / m.details["time_ms"] / 1e9, rel=2e-2)
    tf32 = [m for m in found if m.details["dtype"] == "tf32"]
    assert [(m.value, m.variant) for m in tf32] == [(None, "tf32")] * 2
    assert all(m.why for m in tf32)

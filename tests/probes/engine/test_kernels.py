"""Our own kernels, each run on made-up GPUs and held against Python's arithmetic."""

from __future__ import annotations

import ctypes
import random
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from gputop.probes.engine.cuda import Cuda
from gputop.probes.engine.kernels import THREADS, Kernels, Unlike
from gputop.probes.engine.library import EngineError
from gputop.probes.engine.memory import Memory
from tests.device_kernels.made_up import NOTHING, MadeUpDriver

SEED = 0x0123456789ABCDEF
ONES = (1 << 64) - 1


class Bench:
    """One or two made-up GPUs with the kernels on the first."""

    def __init__(self, driver: MadeUpDriver, devices: int) -> None:
        driver.becomes(f"devices={devices}")
        self.driver = driver
        self.runtime = Cuda(driver.handle)
        self.runtime.open(range(devices))
        self.kernels = Kernels(self.runtime)
        self.kernels.prepare(0)
        self.stream = self.runtime.stream(0)
        self.kept: list[tuple[int, Memory]] = []

    def empty(self, size: int, index: int = 0) -> Memory:
        self.kept.append((index, self.runtime.allocate(index, size)))
        self.runtime.clear(index, self.kept[-1][1])
        return self.kept[-1][1]

    def holding(self, content: bytes, index: int = 0) -> Memory:
        memory = self.empty(len(content), index)
        self.write(memory, content, index)
        return memory

    def write(self, memory: Memory, content: bytes, index: int = 0) -> None:
        self.runtime.use(index)
        source = ctypes.create_string_buffer(content, len(content))
        self.runtime.copy(memory.address, ctypes.addressof(source), len(content), None)
        self.runtime.synchronize(index)

    def read(self, memory: Memory, index: int = 0) -> bytes:
        return self.runtime.read(index, memory)

    def words(self, memory: Memory, letter: str = "I") -> tuple[Any, ...]:
        content = self.read(memory)
        return struct.unpack(f"<{len(content) // struct.calcsize(letter)}{letter}", content)

    def close(self) -> None:
        self.runtime.synchronize(0)
        for index, memory in self.kept:
            self.runtime.free(index, memory)
        self.runtime.drop_stream(0, self.stream)
        self.kernels.close()


@pytest.fixture
def bench(driver: MadeUpDriver) -> Iterator[Bench]:
    made = Bench(driver, 1)
    yield made
    made.close()
    assert driver.holds() == NOTHING


def noise(size: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(size)


def splitmix(place: int, seed: int) -> int:
    word = (seed + (place + 1) * 0x9E3779B97F4A7C15) & ONES
    word = ((word ^ word >> 30) * 0xBF58476D1CE4E5B9) & ONES
    word = ((word ^ word >> 27) * 0x94D049BB133111EB) & ONES
    return word ^ word >> 31


# 1024 threads with 12 pieces each are one turn of the fast loop: below it, at it, beyond it.
@pytest.mark.parametrize("pieces", [1, 1023, 12 * 1024, 12 * 1024 * 2 + 517])
def test_a_copy_is_whole_whatever_its_length(bench: Bench, pieces: int) -> None:
    sent, guard = noise(16 * pieces), noise(16, seed=9)
    source, to = bench.holding(sent), bench.holding(bytes(16 * pieces) + guard)
    bench.kernels.copy(0, to.address, source.address, 16 * pieces, bench.stream, passes=2)
    assert bench.read(to) == sent + guard


@pytest.mark.parametrize("pieces", [3, 12 * 1024 + 5])
def test_a_read_adds_every_word_once(bench: Bench, pieces: int) -> None:
    sent = noise(16 * pieces)
    source, total = bench.holding(sent), bench.holding(b"\5\0\0\0")
    bench.kernels.read(0, source.address, 16 * pieces, total.address, bench.stream)
    added = sum(struct.unpack(f"<{4 * pieces}I", sent)) % 2**32
    assert bench.words(total) == ((5 + added) % 2**32,)
    assert bench.kernels.sum(0, source, total) == added


def test_a_fill_leaves_its_word(bench: Bench) -> None:
    to = bench.empty(16 * 5000)
    bench.kernels.fill(0, to.address, 16 * 5000, 0xFFFFFFFE, bench.stream)
    assert set(bench.words(to)) == {0xFFFFFFFE}


def test_a_triad_multiplies_and_adds(bench: Bench) -> None:
    count = 4 * (6 * 1024 + 3)
    left = struct.pack(f"<{count}f", *(place % 1000 for place in range(count)))
    right = struct.pack(f"<{count}f", *(place % 7 for place in range(count)))
    a, b, to = bench.holding(left), bench.holding(right), bench.empty(4 * count)
    bench.kernels.triad(0, to.address, (a.address, b.address), 0.5, 4 * count, bench.stream)
    assert list(bench.words(to, "f")) == [p % 1000 + 0.5 * (p % 7) for p in range(count)]
    assert bench.kernels.unlike_triad(0, (to, a, b), 0.5).words == 0
    assert bench.kernels.unlike_triad(0, (to, a, b), 0.25).words == count - len(range(0, count, 7))


def test_a_chase_follows_the_ring(bench: Bench) -> None:
    ring, end = bench.empty(64 * 128), bench.empty(8)
    bench.kernels.ring(0, ring, 128)
    assert bench.words(ring, "Q")[::16] == (*range(16, 16 * 64, 16), 0)
    bench.kernels.chase(0, ring.address, 1000, end.address, bench.stream)
    bench.runtime.synchronize(0)
    assert bench.words(end, "Q") == (16 * (1000 % 64),)


def test_random_words_are_those_of_the_seed(bench: Bench) -> None:
    to = bench.empty(8 * 3001)
    bench.kernels.random(0, to, SEED)
    expected = tuple(splitmix(place, SEED) for place in range(3001))
    assert bench.words(to, "Q") == expected
    bench.kernels.random(0, to, SEED, flipped=True)
    assert bench.words(to, "Q") == tuple(word ^ ONES for word in expected)


def test_random_numbers_lie_around_zero(bench: Bench) -> None:
    to = bench.empty(4 * 4001)
    bench.kernels.numbers(0, to, SEED)
    found = bench.words(to, "f")
    signed = [splitmix(p, SEED) >> 32 for p in range(4001)]
    expected = [(n - (1 << 32) if n >> 31 else n) / 2**31 for n in signed]
    assert found == pytest.approx(expected, abs=1e-6)
    assert min(found) < -0.9
    assert max(found) > 0.9


def wrong_word(bench: Bench, memory: Memory, places: Sequence[int], size: int) -> None:
    """Flip a bit of some words."""
    content = bytearray(bench.read(memory))
    for place in places:
        content[place * size + 2] ^= 0x40
    bench.write(memory, bytes(content))


@pytest.mark.parametrize("places", [(0,), (4999,), (1234, 4000)])
def test_a_comparison_finds_each_wrong_word(bench: Bench, places: tuple[int, ...]) -> None:
    """The first, the last, or several: their number and the first of them."""
    kernels, right = bench.kernels, Unlike(0, ONES)
    one, other = bench.empty(8 * 5000), bench.empty(8 * 5000)
    for memory in (one, other):
        kernels.random(0, memory, SEED)
    assert kernels.unlike_random(0, one, SEED) == kernels.unlike(0, one, other) == right
    wrong_word(bench, one, places, 8)
    found = Unlike(len(places), places[0])
    assert kernels.unlike_random(0, one, SEED) == kernels.unlike(0, one, other) == found
    assert kernels.unlike_random(0, other, SEED + 1).words == 5000

    kernels.fill(0, one.address, 8 * 5000, 7, bench.stream)
    bench.runtime.synchronize(0)
    assert kernels.unlike_fill(0, one, 7) == right
    wrong_word(bench, one, places, 4)
    assert kernels.unlike_fill(0, one, 7) == found

    floats = [bench.empty(4 * 5000) for _ in range(3)]
    to, a, b = floats
    for memory in (a, b):
        kernels.numbers(0, memory, SEED)
    kernels.triad(0, to.address, (a.address, b.address), 3.0, 4 * 5000, bench.stream)
    bench.runtime.synchronize(0)
    assert kernels.unlike_triad(0, floats, 3.0) == right
    wrong_word(bench, to, places, 4)
    assert kernels.unlike_triad(0, floats, 3.0) == found


def test_what_is_no_number_is_wrong(bench: Bench) -> None:
    to, a = bench.holding(struct.pack("<4f", 0, 0, float("nan"), 0)), bench.empty(16)
    assert bench.kernels.unlike_triad(0, (to, a, a), 1.0) == Unlike(1, 2)


def test_a_released_hold_is_not_late(bench: Bench) -> None:
    host = bench.runtime.allocate_host(0, 8)
    words = (ctypes.c_uint * 2).from_address(host.address)
    words[:] = [1, 0]
    bench.kernels.hold(0, host.address, 1000, host.address + 4, bench.stream)
    bench.runtime.synchronize(0)
    assert list(words) == [1, 0]
    words[:] = [0, 0]
    bench.kernels.hold(0, host.address, 1000, host.address + 4, bench.stream)
    bench.runtime.synchronize(0)
    assert list(words) == [0, 1]
    bench.runtime.free_host(host)


def test_sizes_are_whole_pieces(bench: Bench) -> None:
    for size in (0, 8, 24):
        with pytest.raises(ValueError, match="no multiple of 16"):
            bench.kernels.copy(0, 16, 16, size, bench.stream)


def test_timed_kernels_have_a_block_for_each_multiprocessor(bench: Bench) -> None:
    to = bench.empty(64)
    bench.kernels.copy(0, to.address, to.address, 64, bench.stream)
    counted = bench.driver.counted
    assert (counted("blocks.gputop_copy"), counted("threads.gputop_copy")) == (2, THREADS)


def test_code_is_loaded_once_and_unloaded(driver: MadeUpDriver) -> None:
    bench = Bench(driver, 2)
    for index in (0, 0, 1):
        bench.kernels.prepare(index)
    assert driver.counted("modules") == 2
    for _ in range(3):
        bench.kernels.random(0, bench.empty(64), SEED)
    assert driver.counted("calls.cuModuleGetFunction") == 1
    bench.close()
    assert driver.holds() == NOTHING


def test_a_kernel_reaches_a_peer_once_it_is_mapped(driver: MadeUpDriver) -> None:
    bench = Bench(driver, 2)
    there = bench.empty(8 * 100, 1)
    bench.runtime.reach(0, 1)
    bench.kernels.random(0, there, SEED)
    assert bench.kernels.unlike_random(1, there, SEED).words == 0
    bench.kernels.random(1, there, SEED + 1)
    bench.close()
    assert driver.holds() == NOTHING


def test_a_kernel_on_memory_that_is_not_mapped_is_a_fault(driver: MadeUpDriver) -> None:
    bench = Bench(driver, 2)
    there = bench.empty(8 * 100, 1)
    with pytest.raises(EngineError, match="ILLEGAL_ADDRESS: an illegal memory access") as caught:
        bench.kernels.random(0, there, SEED)
    assert caught.value.code == 700
    with pytest.raises(EngineError, match="illegal memory access"):
        bench.runtime.allocate(0, 16)  # every call fails from then on


def test_code_that_the_driver_refuses_is_an_error(driver: MadeUpDriver) -> None:
    driver.becomes("devices=1", "cuModuleLoadData=222")
    runtime = Cuda(driver.handle)
    runtime.open([0])
    with pytest.raises(EngineError, match="unsupported toolchain"):
        Kernels(runtime).prepare(0)
    assert driver.holds() == NOTHING

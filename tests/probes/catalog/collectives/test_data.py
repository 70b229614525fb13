"""The probe collectives: what each operation gives, gets and has to find there."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest

from gputop.probes.catalog.collectives.operations import BY_NAME, FLOAT_BYTES, IN_PLACE, OPERATIONS
from gputop.probes.crew.means import TorchGroup
from gputop.probes.crew.torch_accelerator import TorchAccelerator
from tests.probes.catalog.collectives.made import made


class FakeDist:
    """All ranks in one process: a call waits for the others' and then does what it should."""

    def __init__(self, torch: Any, ranks: int) -> None:
        self.torch, self.ranks, self.isend, self.irecv = torch, ranks, "send", "receive"
        self.barrier = threading.Barrier(ranks)
        self.given: dict[int, Any] = {}
        self.rank = threading.local()

    def meet(self, given: Any) -> list[Any]:
        self.given[self.rank.number] = given.clone()
        self.barrier.wait(60)
        found = [self.given[rank].clone() for rank in range(self.ranks)]
        self.barrier.wait(60)
        return found

    def all_reduce(self, data: Any) -> None:
        data.copy_(sum(self.meet(data)))

    def all_gather_into_tensor(self, result: Any, given: Any) -> None:
        result.copy_(self.torch.cat(self.meet(given)))

    def reduce_scatter_tensor(self, result: Any, given: Any) -> None:
        result.copy_(sum(self.meet(given)).view(self.ranks, -1)[self.rank.number])

    def all_to_all_single(self, result: Any, given: Any) -> None:
        parts = [other.view(self.ranks, -1)[self.rank.number] for other in self.meet(given)]
        result.copy_(self.torch.cat(parts))

    def broadcast(self, data: Any, root: int) -> None:
        data.copy_(self.meet(data)[root])

    def P2POp(self, way: str, data: Any, peer: int) -> tuple[str, Any, int]:  # noqa: N802
        return way, data, peer

    def batch_isend_irecv(self, both: list[tuple[str, Any, int]]) -> list[Any]:
        (_, given, to), (_, result, source) = both
        assert to == (self.rank.number + 1) % self.ranks
        result.copy_(self.meet(given)[source])
        return []


CASES = [(op.name, form) for op in OPERATIONS for form in op.forms]


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize(("name", "form"), CASES)
@pytest.mark.parametrize("spoiled", [False, True])
def test_what_has_to_arrive(name: str, form: str, ranks: int, spoiled: bool) -> None:
    """Right data is found right in every form; one number that is not is found, and no more."""
    torch = importlib.import_module("torch")
    dist, wrong = FakeDist(torch, ranks), {}

    def member(rank: int) -> None:
        dist.rank.number = rank
        here = TorchAccelerator(torch, 0, cpu=True)
        operation = BY_NAME[name]
        one = made(here, TorchGroup(here, dist, str, rank, ranks), rank, ranks)
        numbers = operation.numbers(4096, ranks)
        one._send, one._receive = here.numbers(numbers), here.numbers(numbers)
        call = one._calls(operation, form, numbers)[0]
        given, result = operation.places(one._send, one._receive, rank, ranks, form)
        begin = one._receive.data_ptr()
        is_inside = begin <= given.data_ptr() < begin + numbers * FLOAT_BYTES
        assert is_inside == (form == IN_PLACE)

        def spoiling() -> None:
            call()
            if spoiled and rank == 1:
                result[-1] += 1

        wrong[rank] = one._check(operation, form, numbers, spoiling)
        if name != "reduce_scatter":
            assert wrong[rank][1] == numbers * FLOAT_BYTES

    run_all(member, ranks)
    assert {rank: found[0] for rank, found in wrong.items()} == {
        rank: 4 if spoiled and rank == 1 else 0 for rank in range(ranks)
    }


@pytest.mark.parametrize(("parts", "calls"), [(3, 3), (64, 20)])
def test_calls_go_through_twenty_parts_at_most(parts: int, calls: int) -> None:
    torch = importlib.import_module("torch")
    here = TorchAccelerator(torch, 0, cpu=True)
    one = made(here, TorchGroup(here, FakeDist(torch, 2), str, 0, 2), 0, 2)
    one._send, one._receive = here.numbers(16 * parts), here.numbers(16 * parts)
    assert len(one._calls(BY_NAME["all_reduce"], IN_PLACE, 16)) == calls


def run_all(member: Callable[[int], None], ranks: int) -> None:
    troubles: list[Exception] = []

    def run_one(rank: int) -> None:
        try:
            member(rank)
        except Exception as error:  # noqa: BLE001  (told in the test's thread)
            troubles.append(error)

    threads = [threading.Thread(target=run_one, args=(rank,)) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not troubles, troubles


@pytest.mark.parametrize("knows", [True, False])
def test_the_communicator_comes_up_at_once_where_torch_can(knows: bool) -> None:
    """torch learnt `device_id` in 2.3."""
    given: dict[str, Any] = {}

    class Old:
        def FileStore(self, path: str, ranks: int) -> Any:  # noqa: N802
            return mock.Mock()

        def PrefixStore(self, name: str, store: Any) -> Any:  # noqa: N802
            return name, store

        def init_process_group(
            self, backend: str, store: Any, rank: int, world_size: int, timeout: Any
        ) -> None:
            given.update(backend=backend, rank=rank, world_size=world_size)

    class New(Old):
        def init_process_group(self, *args: Any, device_id: Any = None, **kwargs: Any) -> None:
            given["device_id"] = device_id
            super().init_process_group(*args, **kwargs)

    class Here:
        backend = "nccl"

        def torch_device(self) -> str:
            return "cuda:1"

    here: Any = Here()
    TorchGroup(here, New() if knows else Old(), mock.Mock(), 1, 2).open(eager=True)
    assert (given["backend"], given["rank"], given["world_size"]) == ("nccl", 1, 2)
    assert given.get("device_id") == ("cuda:1" if knows else None)


class FakeCuda:
    """A GPU whose clock stands still but for the kernel that holds it and the calls."""

    def __init__(self, *, host_is_slow: bool) -> None:
        self.now, self.host_is_slow = 0.0, host_is_slow
        self.held_cycles: list[int] = []

    def set_device(self, index: int) -> None:
        pass

    def _sleep(self, cycles: int) -> None:
        self.held_cycles.append(cycles)
        self.now += cycles / 1e9

    def Event(self, enable_timing: bool) -> Any:  # noqa: N802
        cuda = self

        class Event:
            def record(self) -> None:
                self.at = cuda.now

            def query(self) -> bool:
                return cuda.host_is_slow

            def synchronize(self) -> None:
                pass

            def elapsed_time(self, other: Any) -> float:
                return float(other.at - self.at) * 1e3

        return Event()


@pytest.mark.parametrize("host_is_slow", [False, True])
def test_calls_are_timed_from_the_first_that_counts(host_is_slow: bool) -> None:
    """Neither the time that the GPU is held nor the call that aligns the ranks is in the figure."""

    class FakeTorch:
        cuda = FakeCuda(host_is_slow=host_is_slow)

    cuda = FakeTorch.cuda
    here = TorchAccelerator(FakeTorch, 0, cpu=False)

    def call() -> None:
        cuda.now += 20e-6

    assert here.in_a_row([call] * 10)[0] == pytest.approx(20e-6)

    def lead() -> None:
        cuda.now += 1.0

    found = here.held(lead, [call] * 10, 0.005)
    assert cuda.held_cycles[-1] == pytest.approx(5_000_000), "it holds the GPU for 5 ms at 1 GHz"
    if host_is_slow:
        assert found is None, "it went on before all was queued, so the host is in the figure"
    else:
        assert found == pytest.approx(20e-6)

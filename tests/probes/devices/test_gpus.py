"""The GPUs of a driver as probes of copies use them, on made-up GPUs."""

from __future__ import annotations

import pytest

from gputop.probes.devices import gpus as gpus_module
from gputop.probes.devices.devices import Flow
from gputop.probes.devices.gpus import Gpus
from gputop.probes.engine.cuda import Cuda
from gputop.probes.engine.library import EngineError
from tests.device_kernels.made_up import NOTHING, MadeUpDriver

MIB = 1 << 20
SPEED = 400e9


def gpus(driver: MadeUpDriver, devices: int, *words: str) -> Gpus:
    """Opened GPUs, whose work takes as long as its bytes and no longer."""
    driver.becomes(f"devices={devices}", "op_ns=0", *words)
    backend = Gpus(Cuda(driver.handle))
    backend.open(range(devices))
    return backend


def content(backend: Gpus, index: int) -> tuple[bytes, bytes]:
    """The outgoing and the incoming buffer of a GPU."""
    return tuple(  # type: ignore[return-value]
        backend.runtime.read(index, kept[index]) for kept in (backend._out, backend._into)
    )


def test_a_flow_is_timed_and_its_data_compared(driver: MadeUpDriver) -> None:
    backend = gpus(driver, 2, "call_ns=20000")
    backend.allocate([0, 1], MIB)
    times = backend.flow_seconds([Flow(0, 1)], MIB, 50)
    assert list(times.each) == pytest.approx([50 * MIB / SPEED])
    assert times.together == pytest.approx(50 * MIB / SPEED)
    assert backend.copied_right(0, 1, MIB)


def test_flows_start_together_and_have_a_clock_each(driver: MadeUpDriver) -> None:
    backend = gpus(driver, 3, "call_ns=10000")
    backend.allocate([0, 1, 2], 4 * MIB)
    flows = [Flow(0, 1), Flow(1, 0, reads=True), Flow(0, 2, src_slot=1), Flow(2, 1, dst_slot=1)]
    times = backend.flow_seconds(flows, 2 * MIB, 8)
    assert list(times.each) == pytest.approx([16 * MIB / SPEED] * 4)
    assert times.together == pytest.approx(16 * MIB / SPEED)


def test_slots_are_parts_of_the_buffers(driver: MadeUpDriver) -> None:
    backend = gpus(driver, 3)
    backend.allocate([0, 1, 2], 2 * MIB)
    backend.flow_seconds([Flow(0, 1, dst_slot=1), Flow(2, 1, src_slot=1)], MIB, 1)
    came = content(backend, 1)[1]
    assert came[MIB:] == content(backend, 0)[0][:MIB]
    assert came[:MIB] == content(backend, 2)[0][MIB:]


def test_devices_hold_unlike_data(driver: MadeUpDriver) -> None:
    backend = gpus(driver, 2)
    backend.allocate([0, 1], MIB)
    assert content(backend, 0)[0] != content(backend, 1)[0]
    assert not backend.copied_right(0, 1, MIB)
    backend.flow_seconds([Flow(0, 1)], MIB, 1)
    assert backend.copied_right(0, 1, MIB)
    backend.clear(1)
    assert not backend.copied_right(0, 1, MIB)


@pytest.mark.parametrize("denied", ["", "denied=0>1", "denied=0>1,1>0"])
def test_a_pair_is_mapped_as_far_as_it_is_granted(driver: MadeUpDriver, denied: str) -> None:
    backend = gpus(driver, 2, denied)
    backend.allocate([0, 1], MIB)
    for _ in range(3):
        seconds = backend.flow_seconds([Flow(0, 1)], MIB, 4).together
    assert seconds == pytest.approx(4 * MIB / (20e9 if denied else SPEED))
    assert driver.counted("mapped") == {"": 2, "denied=0>1": 1}.get(denied, 0)
    assert driver.counted("calls.cuCtxEnablePeerAccess") == driver.counted("mapped")
    assert backend.copied_right(0, 1, MIB)


def test_a_store_is_compared_by_its_owner(driver: MadeUpDriver) -> None:
    backend = gpus(driver, 2)
    check = backend.store(0, 1, 64 * 1024)
    assert (check.checked_bytes, check.wrong_bytes, check.first_wrong_offset) == (65536, 0, None)
    backend = gpus(driver, 2, "lost=0>1")
    check = backend.store(0, 1, 64 * 1024)
    assert (check.checked_bytes, check.wrong_bytes, check.first_wrong_offset) == (65536, 8, 65528)
    assert backend.store(1, 0, 64 * 1024).wrong_bytes == 0
    backend.release()
    assert driver.holds() == NOTHING


def test_a_store_that_is_not_granted_is_refused(driver: MadeUpDriver) -> None:
    backend = gpus(driver, 2, "denied=0>1")
    with pytest.raises(EngineError, match="illegal memory access"):
        backend.store(0, 1, 4096)


def test_kernels_run_where_the_doer_is(driver: MadeUpDriver) -> None:
    backend = gpus(driver, 2)
    backend.allocate([0, 1], MIB)
    for reads in (False, True):
        backend.clear(1)
        seconds = backend.kernel_seconds(Flow(0, 1, reads=reads), MIB, 16)
        assert seconds == pytest.approx(16 * MIB / 370e9)
        assert backend.copied_right(0, 1, MIB)
    assert backend.chase_seconds(1, 0, 20_000) == pytest.approx(0.014)
    backend.release()
    backend = gpus(driver, 2, "kernel.gputop_copy=719")
    backend.allocate([0, 1], MIB)
    with pytest.raises(EngineError, match="unspecified launch failure"):
        backend.kernel_seconds(Flow(0, 1, reads=True), MIB, 1)
    assert backend.free_bytes(0) > 0, "the reader ran it, so that the owner has no fault"


def test_a_chase_that_ends_elsewhere_is_an_error(driver: MadeUpDriver) -> None:
    backend = gpus(driver, 2, "spoil=gputop_chase@0")
    backend.allocate([0, 1], MIB)
    with pytest.raises(EngineError, match="through 100 places ended at word"):
        backend.chase_seconds(0, 1, 100)
    backend.release()
    assert driver.holds() == NOTHING


def test_staging_empties_one_buffer_while_the_other_fills(driver: MadeUpDriver) -> None:
    chunk = gpus_module._CHUNK_BYTES
    backend = gpus(driver, 2, "denied=0>1,1>0")
    backend.allocate([0, 1], 6 * chunk)
    for _ in range(2):
        seconds = backend.staged_seconds(0, 1, 6 * chunk)
        assert seconds == pytest.approx(7 * chunk / 50e9, rel=0.01), "not twelve"
    assert backend.copied_right(0, 1, 6 * chunk)
    assert (driver.counted("pinned"), driver.counted("events")) == (3, 0)
    backend.clear(1)
    backend.staged_seconds(0, 1, chunk + 12344)
    assert backend.copied_right(0, 1, chunk + 12344)
    backend.release()
    assert driver.holds() == NOTHING


def test_without_kernels_copy_engines_stay(driver: MadeUpDriver) -> None:
    """Nothing of the first GPU stays loaded when the second has no code."""
    backend = gpus(driver, 2, "cuModuleLoadData=222@2")
    assert driver.holds() == NOTHING
    assert backend.no_kernels is not None
    assert "unsupported toolchain" in backend.no_kernels
    backend.allocate([0, 1], MIB)
    assert backend.flow_seconds([Flow(0, 1)], MIB, 2).together > 0
    assert backend.kernel_seconds(Flow(0, 1), MIB, 2) is None
    assert backend.chase_seconds(0, 1, 100) is None
    assert backend.copied_right(0, 1, MIB) is None
    with pytest.raises(EngineError, match="no kernel can store: cuModuleLoadData answered 222"):
        backend.store(0, 1, 4096)
    assert driver.counted("held") == 0
    backend.release()
    assert driver.holds() == NOTHING


@pytest.mark.parametrize(
    "fault",
    ["cuMemAlloc_v2=2@4", "cuMemAlloc_v2=2@6", "cuLaunchKernel=1@1", "cuLaunchKernel=1@4",
     "cuMemHostAlloc=2@1", "cuStreamCreate=2@2", "cuMemcpyAsync=1@2", "cuMemsetD8_v2=1@1"],
)  # fmt: skip
def test_memory_goes_back_whatever_call_fails(driver: MadeUpDriver, fault: str) -> None:
    backend = gpus(driver, 2, fault)

    def work() -> None:
        backend.allocate([0, 1], MIB)
        backend.flow_seconds([Flow(0, 1), Flow(1, 0)], MIB, 2)
        backend.staged_seconds(0, 1, MIB)
        backend.chase_seconds(0, 1, 100)

    with pytest.raises(EngineError, match=fault.partition("=")[0]):
        work()
    driver.handle.made_well()
    backend.release()
    left = driver.holds()
    del left["events"]  # they go with the process
    assert not any(left.values()), left


def test_after_a_fault_nothing_is_raised_twice(driver: MadeUpDriver) -> None:
    backend = gpus(driver, 2, "kernel.gputop_copy=700")
    backend.release()
    backend = gpus(driver, 2, "kernel.gputop_copy=700")
    backend.allocate([0, 1], MIB)
    with pytest.raises(EngineError, match="illegal memory access"):
        backend.kernel_seconds(Flow(0, 1), MIB, 1)
    backend.release()
    assert not any((backend._out, backend._into, backend._host, backend._streams))
    assert driver.counted("memory") == 3, "that of the other GPU was given back"


def test_instances_have_their_uuid_as_a_key(driver: MadeUpDriver) -> None:
    """They share the address of their GPU."""
    name = "NVIDIA H100 80GB HBM3 MIG 1g.10gb"
    driver.becomes("devices=3", f"name.1={name}", f"name.2={name}",
                   "address.1=0000:05:00.0", "address.2=0000:05:00.0")  # fmt: skip
    records = Gpus(Cuda(driver.handle)).devices()
    assert [record.key for record in records] == [
        "0000:01:00.0",
        "MIG-21212121-2121-2121-2121-212121212121",
        "MIG-22222222-2222-2222-2222-222222222222",
    ]
    assert [record.pci_address for record in records[1:]] == ["0000:05:00.0"] * 2
    assert [record.index for record in records] == [0, 1, 2]


def test_partitions_of_one_address_have_keys_of_their_own(driver: MadeUpDriver) -> None:
    driver.becomes("devices=3", *(f"name.{i}=MI300X" for i in range(3)),
                   "address.0=0000:05:00.0", "address.1=0000:05:00.0",
                   "address.2=0000:26:00.0")  # fmt: skip
    keys = [record.key for record in Gpus(Cuda(driver.handle)).devices()]
    assert keys == ["0000:05:00.0/0", "0000:05:00.0/1", "0000:26:00.0"]


def test_a_gpu_without_an_address_has_its_uuid(driver: MadeUpDriver) -> None:
    driver.becomes("devices=1", "cuDeviceGetPCIBusId=999")
    (record,) = Gpus(Cuda(driver.handle)).devices()
    assert (record.key, record.pci_address) == (record.uuid, None)

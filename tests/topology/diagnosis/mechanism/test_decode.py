from __future__ import annotations

import re

import pytest

from gputop.topology.diagnosis.mechanism.causes import matching, ranked
from gputop.topology.diagnosis.mechanism.codes import by_name
from gputop.topology.diagnosis.mechanism.decode import (
    FailingLine,
    decode,
    decoded_findings,
    operations,
)
from gputop.topology.diagnosis.symptoms.explain import table
from gputop.topology.model.severity import CANNOT_TELL

LAYERS = {
    "ncclDevCommCreate failed": "device API",
    "ncclCommWindowRegister: invalid argument": "memory",
    "cuMulticastBindMem returned 801": "NVLS",
    "ibgda.cpp:1889: NULL value cannot allocate mlx5dv_devx_uar": "verbs",
    "/opt/nvshmem/src/ibgda.cpp:1889: NULL value cannot allocate mlx5dv_devx_uar": "verbs",
    "gdr_copy_md.c:211  UCX  ERROR GPU memory pin failed. length 65536 ret 22": "GPUDirect",
    "mm_sysv.c:114  UCX  ERROR   shmat(shmid=3) failed: Invalid argument": "UCX",
    "cma_ep.c:88  UCX  ERROR   failed: Operation not permitted": "UCX",
    "ibv_modify_qp failed with error Invalid argument": "verbs",
    "NET/OFI Unable to insert remote address into address vector. RC: -22": "libfabric",
    "libibverbs: Warning: couldn't load driver 'libmlx5-rdmav34.so'": "verbs",
    "cudaIpcOpenMemHandle: invalid resource handle": "P2P",
    "cudaDeviceEnablePeerAccess: peer mapping resources exhausted": "P2P",
    "socketFinalizeAccept: wrong magic 74656d2f20544547 != 7970663b906d70b9": "sockets",
    "posix_fallocate /dev/shm/x: No space left on device": "shared memory",
    "exits with return code = -9": "launcher",
    "ib_md.c:1678 UCX  ERROR ibv_open_device(mlx5_0) failed: Cannot allocate memory": "verbs",
    "mlx5_cmd_check:795: ALLOC_UAR(0x802) failed, status limits exceeded(0x8)": "verbs",
    "ibgda.cpp:1393: non-zero status: 121 Error in mlx5dv_devx_obj_modify for INIT2RTR_QP": "verbs",
    "src/nvshmem/ibgda.cpp:2234: NULL value Unable to create ah.": "verbs",
    "mm_iface failed to allocate receive FIFO": "UCX",
    "libfabric:85::core:fi_getinfo_():1392<warn> provider efa output empty list": "libfabric",
    "modprobe: ERROR: could not insert 'nvidia': Key was rejected by service": "driver",
    "rocminfo: HSA_STATUS_ERROR_OUT_OF_RESOURCES": "driver",
    "cuMemCreate failed: operation not permitted": "P2P",
    "Fatal error:  device '*': sys files not found (/sys/class/infiniband/*/ports)": "verbs",
    "nvidia-container-cli: ldcache error: open failed": "container",
    "srun: error: Application launch failed: Invalid job credential": "launch",
    "sharp_coll_init failed: Cannot connect to SHARPD": "SHARP",
    "cannot open /dev/kfd: Permission denied": "driver",
    "could not open device /dev/dri/renderD129: Permission denied (group render)": "driver",
    "mc_cuda.c:88  UCC  ERROR cudaMalloc failed, err:2": "UCC",
    "RuntimeError: Failed to infer device type": "program",
    "cuDevicePrimaryCtxRetain returned CUDA_ERROR_NOT_SUPPORTED": "device code",
    "ImportError: Could not load librccl.so": "loader",
    "jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED": "program",
}


@pytest.mark.parametrize("text", LAYERS)
def test_the_operation_has_its_layer(text: str) -> None:
    found = decode(text)
    assert found is not None
    assert found.operation is not None
    assert found.operation.layer == LAYERS[text]
    assert found.title


def test_a_line_without_operation_and_code_is_not_decoded() -> None:
    assert decode("gpu 7 exploded") is None


def test_a_program_by_name_is_told_as_who_a_line_is_about() -> None:
    found = decode("kubelet: a failure: Connection refused")
    assert found is not None
    assert found.by_name or "kubelet" not in found.title
    found = decode("podman: error: it broke")
    assert found is not None
    assert found.title == "a line about podman speaks of a failure: podman: error: it broke"
    echo = FailingLine(1, "RuntimeError: vLLM: NCCL error")
    assert not decoded_findings([], [echo], [], "x")


def test_an_operation_with_its_code_goes_before_a_program_by_name() -> None:
    found = decode("vllm: getaddrinfo failed: Connection refused")
    assert found is not None
    assert found.operation is not None
    assert found.operation.layer == "sockets"


def test_every_entry_is_whole_and_its_codes_exist() -> None:
    for operation in operations():
        assert operation.sources
        assert operation.cause, operation.does
        assert operation.any or operation.names, operation.does
        for pattern in (*operation.any, *operation.names):
            re.compile(pattern)
        for cause in operation.cause:
            assert cause.cause[-1] == "."
            assert cause.decide
            assert cause.fix
            for code in cause.codes:
                assert code in by_name(), code
            for pattern in (*cause.supports, *cause.against):
                re.compile(pattern)


def test_what_the_text_says_ranks_the_causes() -> None:
    efa = next(one for one in operations() if one.layer == "libfabric")
    code = by_name()["EINVAL"]
    used = "NET/OFI Selected provider is efa (found 4 nics)"
    first, *others = ranked(efa.cause, [used], code)
    assert "security group" in first.cause
    assert first.supported_by == (used,)
    assert all(not one.cause.startswith("The adapter is not") for one in others)


def test_a_contradicted_cause_comes_last() -> None:
    efa = next(one for one in operations() if one.layer == "libfabric")
    found = ranked(efa.cause, ["Selected provider is efa (found 4 nics)"])
    assert found[-1].contradicted_by
    assert found[-1].cause.startswith("The adapter is not")


def test_lines_about_one_operation_are_one_finding_with_the_code_that_one_gives() -> None:
    lines = [
        FailingLine(1, "Libfabric EFA provider failed"),
        FailingLine(3, "Libfabric error: (-12)"),
    ]
    (found,) = decoded_findings(lines, [], [line.text for line in lines], "x")
    assert "ENOMEM" in found.title
    assert [fact.line for fact in found.evidence] == [1, 3]
    assert found.severity is CANNOT_TELL
    assert found.candidates
    assert found.fix
    assert found.look


def test_an_echo_gives_no_code_of_its_own() -> None:
    echo = FailingLine(1, "NCCL error: unhandled system error")
    assert not decoded_findings([], [echo], [], "x")
    assert not decoded_findings([], [FailingLine(1, "exits with return code = -9")], [], "x")


def test_a_code_that_no_cause_names_leaves_all_causes() -> None:
    found = ranked(
        next(one for one in operations() if one.layer == "libfabric").cause, [], by_name()["EXDEV"]
    )
    assert len(found) > 1


def test_what_is_the_cause_of_other_words_comes_after_what_may_be_it_always() -> None:
    decoded = decode("nvidia-smi failed")
    assert decoded is not None
    assert decoded.operation is not None
    first, *_ = ranked(decoded.operation.cause, ["GPU 3 is lost"])
    assert first.supported_by == ("GPU 3 is lost",)


def test_a_title_without_a_code_holds_the_line() -> None:
    said = "docker: Error response from daemon: something new"
    decoded = decode(said)
    assert decoded is not None
    assert said in decoded.title


def test_a_status_of_nvshmem_above_nine_is_an_errno() -> None:
    small, large = (decode(f"init.cu:9: non-zero status: {number} x") for number in (7, 121))
    assert small is not None
    assert large is not None
    assert small.code is by_name()["NVSHMEMX_ERROR_INTERNAL"]
    assert large.code is by_name()["EREMOTEIO"]


def test_memory_that_is_used_up_is_not_blamed_on_the_other_side() -> None:
    line = "ucp_ep.c:9 UCX  ERROR cannot send: Cannot allocate memory"
    (found,) = decoded_findings([FailingLine(1, line)], [], [line], "x")
    assert found.candidates[0].cause.startswith("Memory of one kind")
    assert not any("other side" in one.cause for one in found.candidates)


def test_a_call_of_a_driver_gives_its_code_behind_its_name() -> None:
    for text, name in (
        ("NvlinkTransport: cuMemCreate failed: 800", "cudaErrorNotPermitted"),
        ("cudaMalloc returned 2", "cudaErrorMemoryAllocation"),
        ("hipMalloc(&p, 8) failed with code 2", "hipErrorOutOfMemory"),
    ):
        found = decode(text)
        assert found is not None
        assert found.code is not None
        assert found.code.name == name


def test_a_file_of_ucx_tells_what_it_could_not_do() -> None:
    found = decode("mm_sysv.c:114  UCX  ERROR   shmat(shmid=3) failed: Invalid argument")
    assert found is not None
    assert found.operation is not None
    assert found.operation.does == "map another process's shared memory"


def test_a_queue_pair_without_a_device_is_a_question_of_its_address() -> None:
    lines = [FailingLine(1, "ibv_modify_qp failed (errno 19) (Ib failure: No such device)")]
    (found,) = decoded_findings(lines, (), (), "text")
    assert found.candidates[0].cause.startswith("The GID that is used leads nowhere")


def test_a_code_does_not_speak_twice_for_a_cause() -> None:
    """It is weighed as a code; as a word of the text it would outweigh what else is seen."""
    twice = [
        (one.does, code)
        for one in operations()
        for cause in one.cause
        for code in cause.codes
        if cause.supports and matching(cause.supports).search(code)
    ]
    assert twice == []


ADVICE = "Please set max locked memory (ulimit -l) to 'unlimited' (current: 64 kbytes)"


def test_what_a_line_advises_is_no_state() -> None:
    """Nothing that a program asks for speaks against what it complains of."""
    rows = [cause for row in table() for cause in row.candidate]
    of_operations = [cause for one in operations() for cause in one.cause]
    assert [
        cause.cause
        for cause in (*rows, *of_operations)
        if cause.against and matching(cause.against).search(ADVICE)
    ] == []


def test_a_row_s_own_lines_are_not_against_its_first_cause() -> None:
    for row in table():
        for line in row.shown if row.candidate and row.candidate[0].against else ():
            assert not matching(row.candidate[0].against).search(line), row.id


@pytest.mark.parametrize(
    ("text", "package"),
    [
        ("RuntimeError: Failed to load NCCL library from libnccl.so.2", "libnccl2"),
        ("OSError: cannot load RCCL library, collectives are off", "rccl"),
        ("could not find nvshmem library for the device", "nvidia-nvshmem"),
    ],
)
def test_a_missing_library_is_cured_by_its_own_package(text: str, package: str) -> None:
    first = decoded_findings([FailingLine(1, text)], (), [text], "x")[0]
    assert package in first.candidates[0].fix[0].text


def test_a_librarys_operation_comes_before_that_of_the_program_above_it() -> None:
    lines = [
        FailingLine(1, "jaxlib.xla_extension.XlaRuntimeError: INTERNAL: the step failed"),
        FailingLine(2, "ibv_modify_qp failed with error Invalid argument"),
    ]
    told = decoded_findings(lines, (), [line.text for line in lines], "x")
    assert [one.evidence[0].line for one in told] == [2, 1]


@pytest.mark.parametrize("of_amd", [True, False])
def test_a_platform_is_looked_for_among_those_that_the_text_is_about(of_amd: bool) -> None:
    around = [
        "CUDA platform is not available because: NVML Shared Library Not Found",
        "ROCm platform is not available because: No module named 'amdsmi'",
    ][: 1 + of_amd]
    first = decoded_findings([FailingLine(1, around[0])], (), around, "x")[0].candidates[0]
    assert ("amdsmi" in first.cause) is of_amd


@pytest.mark.parametrize(("gpu", "virtual"), [("GRID T4-8B", True), ("NVIDIA L40S", False)])
def test_a_context_that_is_not_supported_is_a_virtual_gpus(gpu: str, virtual: bool) -> None:
    text = "failed to retain primary context: operation not supported (801), out of options"
    told = decoded_findings([FailingLine(1, text)], (), [text, f"GPU 0: {gpu}"], "x")[0]
    assert "virtual GPU" in told.candidates[0].cause
    assert bool(told.candidates[0].supported_by) is virtual

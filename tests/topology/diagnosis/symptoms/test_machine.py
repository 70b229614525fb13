"""What the tools and services of a machine print when they stop: each is told by its own words."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import diagnose
from gputop.topology.diagnosis.mechanism.decode import FailingLine, decoded_findings
from gputop.topology.diagnosis.symptoms.log import ReadLog
from gputop.topology.model.finding import Finding
from gputop.topology.model.severity import BROKEN, CANNOT_TELL, NOTICE
from gputop.topology.node import Node
from gputop.topology.recorded.load import load
from tests.topology.diagnosis.symptoms.test_unmarked_text import read

SERVICES = {
    "nv-fabricmanager[71]: fabric manager config file item: TRUNK_LINK_FAILURE_MODE has an invalid "
    "value": ("fabric-manager-failed", "another release than the program"),
    "nvidia-fabricmanager-start.sh: Unknown option: --fabricmanager-pid": (
        "fabric-manager-failed", "another release than the program",
    ),
    "[ERROR] not all local fabric manager instances finished their configuration": (
        "fabric-manager-failed", "too early",
    ),
    'node2: Kernel module "ib_umad" is not loaded': ("umad-not-loaded", ""),
    " 01-01-2025 09:00:00:1 [pid=1 tid=1] ERROR  cufio-fs:204 NVMe Driver not registered with "
    "nvidia-fs!!!": ("gds-refused", "NVMe driver has no part"),
    " NVMe               : Unsupported": ("gds-refused", "NVMe driver has no part"),
    " 01-01-2025 09:00:00:1 [pid=1 tid=1] ERROR  0:1072 cuFileRead failed: Inc-bar-usage failed: "
    "size 4096 remaining bytes 0": ("gds-refused", "BAR1"),
    "cuFileDriverOpen failed: CU_FILE_DRIVER_NOT_INITIALIZED": ("gds-refused", "nvidia-fs is not"),
    "NvRmMemInitNvmap failed with No such file or directory": ("jetson-memory", "/dev/nvmap"),
    "NvMapMemAllocInternalTagged: 1075072515 error 12": ("jetson-memory", "used up"),
    "NvRmMemInitNvmap failed with Permission denied": ("jetson-memory", "group"),
    "Failed to create GPU instances: Insufficient Permissions": ("mig-refused", "Only root"),
    "Failed to create GPU instances: Insufficient Resources": ("mig-refused", "fit together"),
    "Unable to enable MIG Mode for GPU 00000000:01:00.0: Not Supported": (
        "mig-refused", "has no MIG",
    ),
    'level=fatal msg="Error watching fields: The third-party Profiling module returned an '
    'unrecoverable error"': ("dcgm-profiling", "counters cannot be taken"),
    'level=info msg="Not collecting DCP metrics: This request is serviced by a module of DCGM that '
    'is not currently loaded"': ("dcgm-profiling", "older than the GPU"),
    "nvidia 0000:41:00.0: PM: pci_pm_suspend(): nv_pmops_suspend+0x0/0x30 [nvidia] returns -5": (
        "suspend-refused", "",
    ),
    "cuda driver library init failure: 999": ("cuda-unknown", ""),
    "GID: 00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00\nFailed to modify QP 71 to RTR": (
        "ib-no-route", "all zero",
    ),
    "local GID: fe:80:00:00:00:00:00:00:9e:63:c0:ff:fe:00:11:22\nFailed to modify QP to RTR": (
        "ib-no-route", "link-local",
    ),
    "nvidia-fs MAP ioctl failed : ioctl_return: -22 ioctl_ret: -1": ("gds-refused", "map this GPU"),
    "CUFile error: 5033 (NVFS driver initialization error)": ("gds-refused", "nvidia-fs is not"),
    "Failed to set persistence mode for GPU 00000000:41:00.0: Insufficient Permissions": (
        "nvidia-smi-refused", "Only root",
    ),
    "Provided power limit 900.00 W is not a valid power limit which should be between 200.00 W and "
    "700.00 W for GPU 00000000:06:00.0": ("nvidia-smi-refused", "outside the range"),
    "Changing power management limit is not supported for GPU: 00000000:01:00.0.": (
        "nvidia-smi-refused", "does not offer",
    ),
    "GPU 00000000:3B:00.0 is currently in use by one or more other processes": (
        "nvidia-smi-refused", "uses the GPU",
    ),
    "-E- PSID mismatch. The PSID on flash (DEL0000000025) differs from the PSID in the given image "
    "(MT_0000000158).": ("nic-tool-refused", "another card"),
    "-E- Failed to open device: /dev/mst/mt4129_pciconf0. MFE_NO_FLASH_DETECTED": (
        "nic-tool-refused", "registers",
    ),
    "-E- Burning FS4 image failed: The Digest in the signature is wrong": (
        "nic-tool-refused", "signed firmware",
    ),
    "system has unsupported display driver / cuda driver combination": (
        "cuda-compat", "of two versions",
    ),
    "CUDA error 804: forward compatibility was attempted on non supported HW": (
        "cuda-compat", "compatibility package",
    ),
    "Current mode: enforcing\nmodprobe: ERROR: could not insert 'nvidia': Permission denied": (
        "driver-not-running", "SELinux",
    ),
    "Error connecting to nv-hostengine: connection refused": ("dcgm-no-engine", ""),
}  # fmt: skip
"""A line as it is printed -> the row that answers, and words of the cause that leads."""

OPERATIONS = {
    "gdrdrv:__gdrdrv_pin_buffer: NVRM: address or length are not aligned, failed [ret = -22]": (
        "older than the driver"
    ),
    "ERR:  Error getting the gdrdrv driver version with ioctl error (errno=25). gdrdrv might be "
    "too old.": "older than the library",
    "qemu-kvm: -device vfio-pci,host=0000:81:00.0: vfio 0000:81:00.0: group 34 is not viable": (
        "same IOMMU group"
    ),
    "qemu-system-x86_64: vfio 0000:03:00.0: no iommu_group found: No such file or directory": (
        "IOMMU is off"
    ),
    "vfio-pci 0000:01:00.0: BAR 1: can't reserve [mem 0xe0000000-0xefffffff 64bit pref]": "console",
    "mlx5_core 0000:5e:00.0: Firmware over 120000 MS in pre-initializing state, aborting": (
        "firmware does not start"
    ),
    "mlx5_core 0000:01:00.0: handle_hca_cap failed, mlx5_load_one failed with error code -22": (
        "older than the adapter's firmware"
    ),
    "mlx5_core 0000:a1:00.0: Port module event[error]: module 0, Cable error, High Temperature": (
        "transceiver or cable"
    ),
    "mlx5_core 0000:a1:00.0: wait_func: timeout. Will cause a leak of a command resource": (
        "no longer answers"
    ),
    "nvidia-vgpu-mgr[99]: error: vmiop_log: (0x0): vGPU is supported only on VGX capable boards": (
        "none that this vGPU manager serves"
    ),
    "nvidia-vgpu-mgr[99]: error: vmiop_log: (0x0): VGPU message signature mismatch": (
        "two vGPU releases"
    ),
    "efa 0000:4f:00.0: failed in ib_register_device+0x3cd/0x5b0 [ib_core]": "Two stacks are mixed",
    "nvidia-persistenced[7]: Failed to query NVIDIA devices. Please ensure that the NVIDIA device "
    "files (/dev/nvidia*) exist": "driver is not loaded",
    "insmod: ERROR: could not insert module ./nvidia.ko: Unknown symbol in module": (
        "A module on which it depends is not loaded"
    ),
    "nvidia-persistenced-wrapper: error starting: fork/exec /usr/bin/nvidia-persistenced: no such "
    "file or directory": "not in this image",
    "src/query_smp.c:195; umad (DR path slid 0; dlid 0; 0,1,9 Attr 0x11:0) bad status 110; "
    "Connection timed out": "does not answer",
    "[ERROR] [tid 4] IMEX: No matching network interface found for any IP addresses": (
        "list of nodes"
    ),
}
"""A line that names an operation -> words of the cause that leads."""


def said(text: str) -> ReadLog:
    return read(text)


def leading(found: Finding) -> str:
    return found.candidates[0].cause if found.candidates else ""


@pytest.mark.parametrize("line", SERVICES)
def test_a_service_is_told_by_its_own_words(line: str) -> None:
    ident, words = SERVICES[line]
    found = next(one for one in said(line).findings if one.id == ident)
    assert words in leading(found)


@pytest.mark.parametrize("line", OPERATIONS)
def test_the_words_of_a_line_choose_the_cause(line: str) -> None:
    (found,) = decoded_findings([FailingLine(1, line)], (), [line], "text")
    assert OPERATIONS[line] in leading(found)


def test_nvme_by_p2pdma_is_no_fault() -> None:
    text = " DRIVER CONFIGURATION:\n NVMe P2PDMA : Supported\n NVMe : Unsupported"
    (found,) = [one for one in said(text).findings if one.id == "gds-refused"]
    assert (found.severity, found.candidates) == (NOTICE, ())


def test_a_confidential_gpu_that_is_not_ready_is_no_fault_of_a_fabric() -> None:
    error = "RuntimeError: CUDA error: system not yet initialized"
    ready = "Confidential Compute GPUs Ready state: not-ready"
    (found,) = [one for one in said(f"{ready}\n{error}").findings if one.id == "cuda-802"]
    assert (found.severity, "confidential" in found.title) == (BROKEN, True)
    (other,) = [one for one in said(error).findings if one.id == "cuda-802"]
    assert "confidential" not in other.title


def test_a_mapping_of_the_driver_is_no_memory_of_a_jetson() -> None:
    line = "[  38.4] NVRM: RmInitAdapter: osInitNvMapping failed, bailing out of RmInitAdapter"
    assert "jetson-memory" not in {one.id for one in said(line).findings}


NAMED = "modinfo nvidia_peermem\nfilename: /lib/modules/6.8.0/updates/dkms/nvidia-peermem.ko"
ABSENT = f"root@n1:~# lsmod | grep peermem\nroot@n1:~# {NAMED}"


def test_a_module_that_lsmod_does_not_list_is_not_loaded() -> None:
    found = {one.id: one for one in said(ABSENT).findings}
    assert "Nothing loads it" in leading(found["module-absent"])
    listed = ABSENT.replace("peermem\nroot", "peermem\nnvidia_peermem  16384  0\nroot", 1)
    other = ABSENT.replace("grep peermem", "grep nouveau")
    for text in (listed, other):
        assert "module-absent" not in {one.id for one in said(text).findings}


DEVINFO = """hca_id:\tmlx5_3
\ttransport:\t\t\tInfiniBand (0)
\tfw_ver:\t\t\t\t28.43.1014
\tnode_guid:\t\t\t9c63:c003:0011:2233
\tphys_port_cnt:\t\t\t1
\t\tport:\t1
\t\t\tstate:\t\t\t{}
\t\t\tmax_mtu:\t\t4096 (5)
\t\t\tsm_lid:\t\t\t0
\t\t\tport_lid:\t\t65535
\t\t\tlink_layer:\t\tInfiniBand
"""


def test_a_port_that_waits_for_its_manager_by_ibv_devinfo(tmp_path: Path) -> None:
    file = tmp_path / "devinfo.txt"
    for state, waits in (("PORT_INIT (2)", True), ("PORT_ACTIVE (4)", False)):
        file.write_text(DEVINFO.format(state))
        device = load([str(file)]).snapshot.machine.rdma[0]
        assert (device.name, device.firmware) == ("mlx5_3", "28.43.1014")
        assert (device.ports[0].state == "INIT") is waits
        assert device.ports[0].link_layer == "InfiniBand"


LSPCI = """41:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 PCIe] [10de:2331] (rev a1)
        Subsystem: NVIDIA Corporation Device [10de:1626]
{}        Kernel modules: nvidiafb, nouveau, nvidia
"""


@pytest.mark.parametrize(
    ("bound", "words"),
    [
        ("", "no driver holds"),
        ("        Kernel driver in use: nouveau\n", "nouveau holds"),
        ("        Kernel driver in use: nvidia\n", None),
        ("        Kernel driver in use: vfio-pci\n", None),
    ],
)
def test_a_gpu_of_lspci_that_no_driver_holds(bound: str, words: str | None, tmp_path: Path) -> None:
    file = tmp_path / "lspci.txt"
    file.write_text(LSPCI.format(bound))
    case = Case(Node(load([str(file)]).snapshot).decide())
    found = [one for one in diagnose(case).findings if one.id == "gpu-without-driver"]
    assert [(words or "") in one.title for one in found] == ([] if words is None else [True])


def test_a_list_without_drivers_accuses_no_gpu(tmp_path: Path) -> None:
    file = tmp_path / "lspci.txt"
    file.write_text(LSPCI.format("").partition("        Kernel")[0])
    case = Case(Node(load([str(file)]).snapshot).decide())
    assert "gpu-without-driver" not in {one.id for one in diagnose(case).findings}


DIAG = """+---------------------------+------------------------------------------------+
| Diagnostic                | Result                                         |
+===========================+================================================+
|-----  Metadata  ----------+------------------------------------------------|
| DCGM Version              | 4.4.1                                          |
+-----  Integration  -------+------------------------------------------------+
| pcie                      | Fail                                           |
|                           | GPU2: Fail                                     |
| Warning: GPU2             | Error using CUDA API cuModuleLoadData: 'the    |
|                           | provided PTX was compiled with an unsupported  |
|                           | toolchain.' for GPU 2                          |
+---------------------------+------------------------------------------------+
"""


def test_a_test_that_is_built_for_another_cuda_accuses_no_gpu(tmp_path: Path) -> None:
    file = tmp_path / "diag.txt"
    for text, severity in ((DIAG, CANNOT_TELL), (DIAG.replace("PTX was", "clock is"), BROKEN)):
        file.write_text(text.replace("an unsupported ", "odd ") if severity is BROKEN else text)
        case = Case(Node(load([str(file)]).snapshot).decide())
        (found,) = [one for one in diagnose(case).findings if one.id == "dcgm-said"]
        assert found.severity is severity
        assert ("built for another CUDA" in (found.impact or "")) is (severity is CANNOT_TELL)

"""What systemd, shells and containers say: statuses, limits, options, device files."""

from __future__ import annotations

import pytest

from gputop.topology.diagnosis.symptoms.explain import explain, known_signs
from gputop.topology.diagnosis.symptoms.log import DEBUG, examine
from gputop.topology.logs.reading.read import read_log

FORMS = {
    "service-user": (
        "Mar 02 09:00:01 b1 systemd[1]: node-metrics.service: Main process exited, code=exited, "
        "status=216/GROUP",
        "Mar 02 09:00:01 b1 systemd[77]: a.service: Failed to determine user credentials: No such "
        "process",
    ),
    "service-program": (
        "    Process: 812 ExecStart=/opt/x/bin/agent (code=exited, status=203/EXEC)",
        "b1 systemd[9]: fm.service: Failed at step EXEC spawning /usr/bin/fm: Permission denied",
    ),
    "service-folder": ("Main PID: 9 (code=exited, status=200/CHDIR)",),
    "service-sandbox": ("a.service: Main process exited, code=exited, status=226/NAMESPACE",),
    "service-masked": (
        "     Loaded: masked (Reason: Unit dcgm.service is masked.)",
        "Failed to restart x.service: Unit x.service is masked.",
    ),
    "service-absent": ("Unit nvidia-fabricmanager.service could not be found.",),
    "files-limit": (
        "worker: accept failed, errno=24",
        "fatal: failed to create epoll fd: EMFILE",
    ),
    "option-for-program": (
        "bash: --rocm: command not found",
        'exec: "--gpus": executable file not found in $PATH: unknown',
    ),
    "device-file-missing": (
        "open /dev/kfd: no such file or directory",
        "failed to add device: stat /dev/nvidia-modeset: no such file or directory",
    ),
    "service-schedule": ("a.service: Failed at step CPUAFFINITY spawning /x: Invalid argument",),
    "service-streams": ("   Main PID: 7 (code=exited, status=209/STDOUT)",),
    "service-login": ("a.service: Main process exited, code=exited, status=224/PAM",),
    "service-memory": ("     Active: failed (Result: oom-kill) since Mon 2026-03-02 09:00:00",),
    "service-watchdog": ("b1 systemd[1]: a.service: Watchdog timeout (limit 30s)!",),
    "service-timeout": (
        "systemd: a.service: State 'stop-sigterm' timed out. Killing.",
        "b1 systemd[1]: a.service: Failed with result 'timeout'.",
    ),
    "service-crashed": ("a.service: Main process exited, code=killed, status=11/SEGV",),
    "service-killed": ("vllm.service: Main process exited, code=killed, status=9/KILL",),
    "service-dependency": ("b1 systemd[1]: Timed out waiting for device dev-nvidia0.device.",),
    "service-protocol": ("b1 systemd[1]: a.service: Failed with result 'resources'.",),
    "service-status": ("   Main PID: 9 (code=exited, status=127)",),
    "service-again": ("     Active: failed (Result: start-limit) since Wed 2015-02-04 14:10:23",),
    "user-unknown": ("KeyError: 'getpwuid(): uid not found: 10001'",),
    "packages-do-not-agree": (
        " alpha-driver : Depends: alpha-libs (= 390.87) but 410.104 is to be installed",
        "  - package beta-2 requires gamma = 3:550, but none of the providers can be installed",
        "  - nothing provides libfoo.so.2 needed by beta-2.el9.x86_64",
    ),
    "package-manager-locked": ("E: dpkg was interrupted, you must manually run 'x'",),
    "package-unknown": ("E: Package 'cuda-toolkit-99' has no installation candidate",),
    "package-key": ("Public key for foo.rpm is not installed",),
    "python-packages-do-not-agree": ("ERROR: ResolutionImpossible: for help visit a page",),
    "wheel-not-there": ("ERROR: foo-2-cp310-any.whl is not a supported wheel on this platform.",),
    "wheel-build-failed": ("error: metadata-generation-failed",),
    "helm-refused": (
        "Error: UPGRADE FAILED: another operation (install/upgrade/rollback) is in progress",
    ),
    "helm-waited": ("Error: INSTALLATION FAILED: context deadline exceeded",),
    "module-signature": (
        "insmod: ERROR: could not insert module gdrdrv.ko: Required key not available",
        "[ 17.1] Loading of module with unavailable key is rejected",
    ),
    "module-of-another-kernel": (
        "amdgpu: Unknown symbol drm_gem_object_put (err -2)",
        "gdrdrv: version magic '5.15.0-86 SMP' should be '5.15.0-87 SMP'",
    ),
    "gpu-bound-elsewhere": ("[ 2.1] NVRM: GPU 0000:01:00.0 is already bound to vfio-pci.",),
    "iommu-group-shared": ("qemu: vfio 0000:01:00.0: group 14 is not viable",),
    "gpu-counters-denied": ("Error: Host engine is running as non-root.",),
    "mpi-address-unknown": ("part of this Open MPI job), but it is from an IP address that is",),
    "mpi-peer-closed": ("  Message:    did not receive entire connect ACK from peer",),
    "host-memory-refused": ("MemoryError", "  what():  std::bad_alloc"),
    "killed-without-a-word": ("run.sh: line 28:  8156 Killed                  python3 main.py",),
    "quota-reached": ("OSError: [Errno 122] Disk quota exceeded",),
    "watches-used-up": ("ENOSPC: System limit for number of file watchers reached",),
    "device-named-by-uuid": ("ValueError: invalid literal for int() with base 10: 'GPU-8c7c9c30'",),
    "mps-unset": ("Cannot find MPS control daemon process",),
    "amdgpu-not-there": ("open /sys/class/kfd/kfd/topology/nodes: no such file or directory",),
    "mig-not-permitted": ("error getting device memory info: Insufficient Permissions",),
    "device-assert": ("error=59 : device-side assert triggered",),
    "rank-out-of-memory": (
        "slurmstepd: error: Detected 2 oom-kill event(s) in step 3.batch cgroup.",
    ),
    "driver-mismatch": (
        "E stream_executor/cuda/cuda_diagnostics.cc:313] kernel version 550.54.15 does not match "
        "DSO version 550.90.7 -- cannot find working devices in this configuration",
    ),
}
INNOCENT = (
    "systemd[1]: nvidia-persistenced.service: Main process exited, code=exited, status=0/SUCCESS",
    "docker run --gpus all image python train.py --nv",
    "crw-rw-rw- 1 root root 195, 0 Jan 5 10:00 /dev/nvidia0",
    "max open files 65536",
    "epoch 24 errors 0",
    "     Loaded: masked (Reason: Unit sleep.target is masked.)",
    "# raise ulimit if you see EMFILE",
    "ls: cannot access '/dev/kfd': No such file or directory",
    "  Process: 7 ExecStop=/bin/true (code=exited, status=0/SUCCESS)",
    "TimeoutStartSec=600  # the result timeout comes after 90 s otherwise",
    "Result: success",
    "b1 systemd[1]: a.service: Deactivated successfully.",
    "b1 systemd[1]: Finished modprobe@drm.service - Load Kernel Module drm.",
    "Reading package lists... Done",
    "0 upgraded, 0 newly installed, 0 to remove and 12 not upgraded.",
    "Successfully installed torch-2.4.0",
    "Complete!",
    "nvidia: module verification failed: signature and/or required key missing - tainting kernel",
    "SecureBoot enabled",
    "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.54.15",
    "01:00.0 VGA compatible controller: NVIDIA Corporation; Kernel driver in use: vfio-pci",
    "IOMMU group 1 01:00.1 Audio device: NVIDIA Corporation",
    "CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps",
    "helm upgrade --install gpu-operator nvidia/gpu-operator --wait --timeout 20m",
    "max memory 512 GiB, MemoryError is raised above that",
    "oom_score_adj 0",
    "quota: none",
)


def found(text: str) -> set[str]:
    lines = [line.encode() for line in text.splitlines()]
    return {one.id for one in explain(read_log(lines, signs=known_signs(), outputs=True))}


@pytest.mark.parametrize("row", FORMS)
def test_every_form_is_found(row: str) -> None:
    for text in FORMS[row]:
        assert row in found(text), text


@pytest.mark.parametrize("text", INNOCENT)
def test_ordinary_lines_accuse_nobody(text: str) -> None:
    assert not found(text) & {*FORMS}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("b1 systemd[1]: x.service: Failed with result 'exit-code'.", "journalctl"),
        ("error: failed to launch widget: bad handle", "from its first line"),
        ("[rank3]: error: failed to launch widget: bad handle", DEBUG),
    ],
)
def test_what_to_fetch_depends_on_who_printed_the_failure(text: str, wanted: str) -> None:
    log = read_log([text.encode()], signs=known_signs(), outputs=True)
    found_there = examine(log, None)
    assert wanted in found_there.next

"""What schedulers, container engines, Kubernetes and MPI's launchers print when nothing starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputop.topology.diagnosis.symptoms.explain import explain, known_signs
from gputop.topology.logs.reading.read import read_log
from gputop.topology.model.finding import Finding
from gputop.topology.model.severity import BROKEN
from tests.support.command import gputop


def _found(text: str) -> dict[str, Finding]:
    lines = [line.encode() for line in text.splitlines()]
    return {one.id: one for one in explain(read_log(lines, signs=known_signs(), outputs=True))}


FORMS = {
    "slurm-built-without": (
        "slurmd: We were configured to autodetect nvml functionality, but we weren't able to find "
        "that lib when Slurm was configured.",
        "[2026-03-02T09:00:00.000] Configured with oneAPI, but that lib wasn't found. dlopen",
    ),
    "slurm-gres-file": (
        "slurmd: error: Waiting for gres.conf file /dev/nvidia3",
        "Mar 02 09:00:00 a1 slurmd[99]: fatal: can't stat gres.conf file /dev/dri/renderD130: "
        "No such file or directory",
    ),
    "slurm-gres-conf": (
        "slurmd: error: Invalid GRES record for gpu, count does not match File value",
        "slurmd: fatal: gres.conf: duplicate node-local AutoDetect specification does not match "
        "the first",
        "slurmctld: fatal: gres.conf duplicate records for shard",
    ),
    "slurm-gres-cores": (
        "slurmctld: error: _node_config_validate: gres/gpu: invalid GRES core specification (64) "
        "on node b2",
    ),
    "slurm-gres-count": (
        "   Reason=gres/gpu count reported lower than configured (6 < 8) [slurm@2026-03-02]",
        "gres/gpu count repor slurm     2026-03-02T06:39:53 b2",
    ),
    "slurm-gres-type": (
        "slurmctld: error: Killing job 3: gres/gpu type h100 not found on node b2",
        "slurmd: error: Discarding the following config-only GPU due to lack of File "
        "specification:",
    ),
    "slurm-node-small": (
        "Low RealMemory       root      2026-03-02T06:39:53 b[1-4]",
        "   Reason=Low socket*core*thread count, Low CPUs [slurm@2026-03-02T06:39:53]",
    ),
    "slurm-unkillable": ("Kill task failed     root      2026-03-02T06:39:53 b2",),
    "slurm-prolog": ("   Reason=Epilog error [slurm@2026-03-02T06:39:53]",),
    "slurm-node-silent": (
        "   Reason=Not responding [slurm@2026-03-02T06:39:53]",
        "Not responding       slurm     2026-03-02T06:39:53 b2",
    ),
    "slurm-cgroup-v2": (
        "error: Couldn't find the specified plugin name for cgroup/v2 looking at all files",
    ),
    "slurm-cgroup-dbus": (
        "slurmd: error: _init_new_scope_dbus: scope and/or cgroup directory for slurmstepd could "
        "not be set.",
    ),
    "slurm-cgroup-controller": (
        "slurmd: error: cpuset cgroup controller is not available.",
        "slurmd: fatal: cgroup filesystem not mounted in /sys/fs/cgroup/",
    ),
    "slurm-plugin": (
        "slurmd: error: Couldn't find the specified plugin name for switch/nvidia_imex looking at "
        "all files",
        "slurmctld: error: Incompatible Slurm plugin /usr/lib64/slurm/auth_munge.so version "
        "(24.05.2)",
    ),
    "munge-key": ("unmunge: Error: Invalid credential",),
    "munge-clock": (
        "slurmd: error: Munge decode failed: Rewound credential",
        "srun: error: Task launch for StepId=4.0 failed on node b2: Job credential expired",
    ),
    "munge-user": ("munged[7]: Notice: Unauthorized credential for client UID=1001 GID=1001",),
    "munge-down": (
        'srun: error: Munge encode failed: Failed to connect to "/run/munge/munge.socket.2": '
        "Connection refused",
    ),
    "munge-insecure": (
        'munged: Error: Logfile is insecure: "/var/log/munge" should be owned by UID 0',
    ),
    "slurm-contact": (
        "sinfo: error: Unable to contact slurm controller (send failure)",
        "slurm_load_jobs error: Zero Bytes were transmitted or received",
    ),
    "slurm-versions": ("slurmctld: error: unpack_header: protocol_version 8704 not supported",),
    "slurm-credential": ("srun: error: Application launch failed: Invalid job credential",),
    "slurm-mpi-type": (
        "srun: error: Couldn't find the specified plugin name for mpi/pmix looking at all files",
        "srun: error: Invalid MPI plugin name",
    ),
    "mpi-without-pmi": (
        "PMI_Get_size [pmix_s1.c:281:s1_init]: Operation failed",
        'The application appears to have been direct launched using "srun",',
    ),
    "pmix-security": ("Framework: psec",),
    "mpi-component": ("A requested component was not found, or was unable to be opened.  This",),
    "pyxis-folder": ("slurmd: error: pyxis: slurmd: couldn't mkdir /scratch/p: Not a directory",),
    "pyxis-seccomp": ("enroot-nsenter: failed to create user namespace: No space left on device",),
    "pyxis-import": ("slurmstepd: error: pyxis: failed to import docker image: x (importer: y)",),
    "enroot-hook": (
        "slurmstepd: error: pyxis:     [ERROR] /etc/enroot/hooks.d/99-mellanox.sh exited with "
        "return code 1",
    ),
    "enroot-exec": ("enroot-switchroot: failed to execute: /bin/sh: Permission denied",),
    "pyxis-name": (
        'slurmstepd: error: pyxis: error: a container with name "x" does not exist, and '
        "--container-image is not set",
    ),
    "srun-no-program": ("slurmstepd: error: execve(): /opt/run.sh: Permission denied",),
    "ssh-key-open": (
        "Authentication refused: bad ownership or modes for directory /home/u/.ssh",
        "Permissions 0777 for '/home/u/.ssh/id_ed25519' are too open.",
    ),
    "sshd-missing": (
        'failed to create shim task: exec: "/usr/sbin/sshd": stat /usr/sbin/sshd: no such file',
        "Missing privilege separation directory: /run/sshd",
    ),
    "name-unresolved": (
        "socket.gaierror: [Errno -2] Name or service not known",
        "ValueError: host not found: Temporary failure in name resolution",
    ),
    "hydra-launch": (
        "[mpiexec@b1] HYDT_bscu_wait_for_completion (tools/bootstrap/utils/bscu_wait.c:77): error "
        "waiting for completion",
    ),
    "k8s-mount-private": (
        'Error: path "/" is mounted on "/" but it is not a shared or slave mount',
    ),
    "k8s-topology": (
        "Warning  TopologyAffinityError  2s  kubelet  Resources cannot be allocated with Topology "
        "locality",
    ),
    "k8s-no-runtime": (
        'Failed to create pod sandbox: rpc error: RuntimeHandler "nvidia" not supported',
    ),
    "k8s-plugin-blind": (
        "I0302 06:39:53.000000 1 factory.go:104] Detected non-NVML platform: no libnvidia-ml.so.1",
        "E0302 06:39:53.000000 1 main.go:173] invalid device discovery strategy",
    ),
    "k8s-validator": (
        'level=info msg="Error: error validating plugin installation: GPU resources are not '
        'discovered by the node"',
    ),
    "kernel-packages-missing": (
        "E: Unable to locate package linux-modules-nvidia-570-server-6.5.0-talos",
        "Error: Unable to find a match: kernel-devel-5.14.0-70.el9.x86_64",
    ),
    "k8s-engine-config": (
        'level=error msg="error running nvidia-toolkit: unable to setup runtime: unable to restart '
        'containerd: unable to dial: dial unix /runtime/sock-dir/containerd.sock"',
    ),
    "cdi-file-gone": (
        'docker: failed to inject CDI devices: failed to stat CDI host device "/dev/nvidia2": no '
        "such file or directory",
    ),
    "container-hook-failed": (
        "Error: crun: error executing hook `/usr/bin/nvidia-ctk` (exit code: 1)",
    ),
    "runtime-program-missing": (
        "nvidia-container-cli: error while loading shared libraries: libtirpc.so.3: cannot open "
        "shared object file",
    ),
    "dcgm-profiling": ("Error: Profiling is not supported for this group of GPUs or GPU",),
    "dcgm-no-engine": ("dcgmi: Unable to connect to host engine",),
    "mig-busy": ("Unable to destroy GPU instance id 5 from GPU 2: In use by another client",),
    "mig-config-wrong": (
        'level=fatal msg="Error setting MIGConfig: cannot set MIG config on non MIG-capable GPU"',
    ),
    "image-not-there": (
        'Warning  Failed  kubelet  Failed to pull image "nvcr.io/nvidia/driver:570-sles15": '
        "not found",
    ),
    "slurm-step-cpus": (
        "srun: error: Unable to create step for job 3: Task count specification invalid",
    ),
    "slurm-step-memory": ("srun: error: Memory required by task is not available",),
    "slurm-step-waits": (
        "srun: Job 3 step creation still disabled, retrying (Requested nodes are busy)",
    ),
    "slurm-bind": (
        "srun: error: CPU binding outside of job step allocation, allocated CPUs are: 0x3.",
    ),
    "slurm-request": (
        "sbatch: error: Batch job submission failed: Requested node configuration is not available",
        "   12   gpu  train  u  PD  0:00  4 (ReqNodeNotAvail, UnavailableNodes:b[1-4])",
    ),
    "slurm-not-allowed": (
        "sbatch: error: Batch job submission failed: Invalid qos specification",
        "   12   gpu  train  u  PD  0:00  4 (QOSMaxGRESPerUser)",
    ),
    "slurm-options-clash": (
        "salloc: fatal: --mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive.",
    ),
    "slurm-hardware": ("slurmd: error: Node configuration differs from hardware: CPUs=8:16(hw)",),
    "slurm-conf-missing": (
        "sinfo: error: s_p_parse_file: unable to status file /opt/slurm.conf: x",
    ),
    "slurm-conf-wrong": (
        "slurmctld: error: Parsing error at unrecognized key: GresTypo",
        "slurmd: fatal: Unable to determine this slurmd's NodeName",
    ),
    "slurm-files": ("slurmctld: fatal: CLUSTER NAME MISMATCH.",),
    "slurm-database": ("slurmdbd: error: mysql_real_connect failed: 2002 Can't connect",),
    "container-brings-driver": (
        "nvidia-container-cli: mount error: file creation failed: /m/usr/lib/libnvidia-ml.so.1: "
        "file exists",
    ),
    "container-wsl": (
        "nvidia-container-cli: mount error: stat failed: /usr/lib/wsl/lib/libcuda.so.1",
    ),
    "container-requirement": (
        "nvidia-container-cli: requirement error: unsatisfied condition: brand=tesla",
    ),
    "container-ldcache": (
        "nvidia-container-cli: ldcache error: process /sbin/ldconfig terminated with signal: 9",
    ),
    "container-mount-failed": (
        "nvidia-container-cli: mount error: stat failed: /dev/nvidia-modeset: no such file",
    ),
    "docker-daemon": ("Cannot connect to the Docker daemon at unix:///x.sock. Is it running?",),
    "docker-no-gpus-flag": ("unrecognized option '--gpus'",),
    "apptainer-no-files": ("INFO:    Could not find any rocm files on this host!",),
    "apptainer-glibc": (
        "tool: /lib64/libc.so.6: version `GLIBC_2.38' not found (required by "
        "/.singularity.d/libs/libEGL.so.1)",
    ),
    "driver-in-use": ("rmmod: ERROR: Module nvidia_uvm is in use",),
    "mpi-orted-missing": ("bash: line 1: /opt/ompi/bin/orted: No such file or directory",),
    "mpi-daemon-lost": ("ORTE has lost communication with a remote daemon.",),
    "mpi-too-many": ("All nodes which are allocated for this job are already filled.",),
    "mpi-no-program": (
        "mpirun was unable to launch the specified application as it could not access",
    ),
    "mpi-as-root": ("prterun has detected an attempt to run as root.",),
    "mpi-bind-failed": ("WARNING: a request was made to bind a process. While the system",),
    "mpi-session-folder": ("UNIX socket path is too long: 118, max 107",),
    "pmix-store": ("[b1:7] PMIX ERROR: ERROR in file gds_ds12_lock_pthread.c at line 168",),
    "pmix-mismatch": ("[b1:7] PMIX ERROR: UNREACHABLE in file ptl_tcp_component.c at line 1849",),
    "enroot-missing": ("slurmstepd: error: pyxis: couldn't execute enroot command",),
    "k8s-unschedulable": (
        "0/9 nodes are available: 9 node(s) didn't match Pod's node affinity/selector.",
    ),
    "k8s-admission": ("Warning  UnexpectedAdmissionError  1s  kubelet  Allocate failed due to x",),
    "k8s-plugin-register": (
        "main.go:9] Could not register device plugin: context deadline exceeded",
    ),
    "k8s-pod-security": ('pods "x" is forbidden: violates PodSecurity "restricted:latest"',),
    "k8s-no-kind": ('no matches for kind "PyTorchJob" in version "kubeflow.org/v1"',),
    "pod-ended": ("The node was low on resource: ephemeral-storage.",),
    "enroot-tool-failed": (
        "enroot-mksquashovlfs: failed to set capabilities: Operation not permitted",
    ),
    "slurm-job-folder": (
        "slurmstepd: error: couldn't chdir to `/scratch/u': No such file: going to /tmp",
    ),
    "slurm-job-container": ("slurmstepd: error: container_g_join(7): failed",),
    "slurm-other-job": (
        "srun: error: Unable to confirm allocation for job 7: Invalid job id specified",
    ),
    "dra-not-prepared": (
        "NodePrepareResources failed for claim a/b: error preparing devices for claim",
    ),
    "containerd-config": (
        "Waiting for containerd startup: unknown service runtime.v1.RuntimeService",
    ),
    "packages-unreachable": (
        "W: Failed to fetch http://archive.ubuntu.com/ubuntu/dists/noble/InRelease",
    ),
    "operator-no-nodes": ('{"msg":"WARNING: failed to get GPU workload config: no NFD labels"}',),
    "k8s-offers-none": ("  amd.com/gpu:  0",),
    "operator-pod-waits": ("gpu-operator  nvidia-device-plugin-daemonset-x  0/1  Init:0/1  0  4m",),
    "slurm-node-state": (
        "   State=IDLE+DRAIN+DYNAMIC_NORM",
        "batch*  up  7-00:00:00  3  down* c[1-3]",
    ),
    "slurm-no-gres": ("   Gres=(null)",),
    "slurm-ended": (
        "srun: error: Node failure on b2",
        "7.batch  batch  gpu  8  OUT_OF_ME+  0:125",
        "   JobState=NODE_FAIL Reason=NodeDown Dependency=(null)",
    ),
    "slurm-no-login": ("Access denied by pam_slurm_adopt: you have no active jobs on this node",),
    "ssh-closed": ("ssh_exchange_identification: Connection closed by remote host",),
    "ssh-host-changed": ("Offending ED25519 key in /home/u/.ssh/known_hosts:12",),
    "mpich-init-failed": (
        "Abort(1091471) on node 7: Fatal error in PMPI_Init: Other MPI error, error stack:",
        "MPIDI_OFI_mpi_init_hook(1382): OFI get address vector map failed",
    ),
    "mpi-no-way": ("PML cm cannot be selected",),
    "mpi-openib": ("WARNING: There was an error initializing an OpenFabrics device.",),
    "mpi-moved": ("But I couldn't open the help file:",),
    "threads-refused": ("libgomp: Thread creation failed: Resource temporarily unavailable",),
    "exec-format": ("standard_init_linux.go:228: exec user process caused: exec format error",),
    "k8s-probe": ("Container vllm failed liveness probe, will be restarted",),
    "k8s-mount-failed": ('MountVolume.SetUp failed for volume "x" : secret "ngc" not found',),
    "k8s-driver-waits": ("Waiting for GPU driver libraries to be available.",),
    "operator-paused": ("nvidia.com/gpu.deploy.dcgm: paused-for-driver-upgrade",),
    "hami-scheduling": (
        "Warning FilteringFailed hami-scheduler no available node, all node scores do not meet",
    ),
    "rootless-limits": ("Error: cannot find UID/GID for user u: no subuid ranges found for user",),
    "apptainer-mount": ("FATAL: container creation failed: mount /proc/self/fd/3->/x error: x",),
    "cloud-capacity": ("Quota 'NVIDIA_H100_GPUS' exceeded.  Limit: 0.0 in region us-central1.",),
}  # fmt: skip
"""Row -> lines in other forms than those that the table shows."""


@pytest.mark.parametrize("ident", FORMS)
def test_the_forms_of_a_message_are_known(ident: str) -> None:
    for line in FORMS[ident]:
        assert list(_found(f"GPU node a1\n{line}")) == [ident], line


def test_a_request_is_read_with_what_the_nodes_have() -> None:
    text = "   Gres=(null)\nsrun: error: Requested node configuration is not available"
    assert _found(text)["slurm-request"].candidates[0].cause.startswith("Slurm has no GPUs written")
    text = "#SBATCH --ntasks-per-node=8\nsrun torchrun --nproc_per_node 8 x.py\n"
    text += "RuntimeError: The server socket has failed to listen on any local network address."
    (finding,) = _found(text).values()
    assert finding.candidates[0].cause.startswith("Several launchers of one job")


def test_the_words_of_a_table_in_a_sentence_end_no_run() -> None:
    text = "bash: /usr/sbin/sshd: No such file or directory\n"
    text += "[ERROR] nothing was printed, not even '# Avg bus bandwidth'"
    assert _found(text)["sshd-missing"].severity == BROKEN


def test_the_log_of_a_pod_or_a_table_of_nodes_is_not_refused(tmp_path: Path) -> None:
    for text in (
        "I0302 06:39:53.000000       1 main.go:39] Starting the example operator\n",
        "NAME   READY   STATUS    RESTARTS   AGE\njob-0  1/1     Running   0          5m\n",
        "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\ngpu  up  infinite  2  idle n[1-2]\n",
    ):
        (tmp_path / "text.txt").write_text(text)
        ran = gputop("check", "--quick", "--from", str(tmp_path / "text.txt"))
        assert "no line of this text speaks of a failure" in ran.stdout, text


def test_such_a_text_is_not_refused(tmp_path: Path) -> None:
    for ident in ("ssh-key-open", "k8s-topology", "slurm-node-small", "mpi-component"):
        text = tmp_path / f"{ident}.txt"
        text.write_text(FORMS[ident][0])
        assert ident in gputop("check", "--quick", "--from", str(text)).stdout


def test_the_origin_hides_what_follows_from_it() -> None:
    texts = {
        "name-unresolved": "ssh: Could not resolve hostname w1: Name or service not known\n"
        "ORTE was unable to reliably start one or more daemons.",
        "pyxis-folder": "srun: error: task 0 launch failed: Plugin initialization failed\n"
        "error: pyxis: couldn't mkdir /run/pyxis/7: No such file or directory",
        "slurm-cgroup-v2": "slurmd: error: cannot find cgroup plugin for cgroup/v2\n"
        "slurmd: error: cannot create cgroup context for cgroup/v2",
        "pyxis-import": "slurmstepd: error: pyxis: failed to import docker image\n"
        "slurmstepd: error: Failed to invoke spank plugin stack\n"
        "srun: error: b1: task 0: Exited with exit code 1",
    }
    assert {ident: list(_found(text)) for ident, text in texts.items()} == {
        ident: [ident] for ident in texts
    }


def test_the_rest_of_a_text_chooses_among_causes() -> None:
    texts = {
        "$ srun --container-image img.sqsh x\n"
        "slurmstepd: error: pyxis: failed to import docker image": "A local file",
        "slurmstepd: error: pyxis: failed to import docker image\n"
        "slurmstepd: error: pyxis:     [ERROR] No space left on device": "There is no room",
        "Reason=gres/gpu count reported lower than configured (0 < 4)": "slurmd found no GPU",
        "Reason=gres/gpu count reported lower than configured (3 < 4)": "A GPU fell off",
        "$ srun -n 4 ./hpl\n*** An error occurred in MPI_Init": "srun started it without",
        "$ mpirun -n 4 ./hpl\n*** An error occurred in MPI_Init": "mpirun and the MPI library",
        "[mpiexec@a] HYDU_create_process (x.c:7): execvp error on file ./a.out": "The program is",
    }
    for text, cause in texts.items():
        (finding,) = _found(text).values()
        assert finding.candidates[0].cause.startswith(cause), text


def test_a_label_of_slurm_without_a_failure_accuses_nothing() -> None:
    text = """
    slurmd: gres.conf: AutoDetect=nvml
    srun: job 7 queued and waiting for resources
    srun: job 7 has been allocated resources
    pyxis: importing docker image: nvcr.io#nvidia/pytorch:24.05-py3
    pyxis: imported docker image: nvcr.io#nvidia/pytorch:24.05-py3
    level=info msg="Starting dcgm-exporter"
    gpu*         up   infinite      2   idle n[1-2]
    gpu*         up   infinite      6  alloc n[3-8]
       State=IDLE+CLOUD ThreadsPerCore=2 TmpDisk=0 Weight=1
      nvidia.com/gpu:     8
      nvidia.com/gpu      0         0
    gpu-operator   nvidia-driver-daemonset-7xk2p            1/1   Running     0   40m
    gpu-operator   nvidia-cuda-validator-mfhz6              0/1   Completed   0   41m
    I0302 06:39:53.000000 1 main.go:39] Registered device plugin for 'nvidia.com/gpu' with Kubelet
    """
    assert not _found(text)

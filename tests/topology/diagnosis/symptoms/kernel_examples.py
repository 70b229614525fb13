"""Lines of kernels, container runtimes, launchers and frameworks: one for each row of two files."""

from __future__ import annotations

KERNEL: dict[str, list[str]] = {
    "nvswitch-fatal": ["nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 32 LTSSM"],
    "nvswitch-error": ["nvidia-nvswitch0: SXid (PCI:0000:86:00.0): 12028, Non-fatal, Link 35"],
    "fabric-manager-failed": ["systemd: nvidia-fabricmanager.service: Failed with result 'exit'."],
    "iommu-fault": ["DMAR: [DMA Write NO_PASID] Request device [3b:00.0] fault addr 0x38ffe0000"],
    "nic-firmware": [
        "mlx5_core 0000:5e:00.0: print_health_info: synd 0x1: firmware internal error"
    ],
    "nic-link-lost": ["mlx5_core 0000:5e:00.0 ens1f0np0: Link down"],
    "machine-check": [
        "mce: [Hardware Error]: CPU 18: Machine Check Exception: 5 Bank 7: be00000000800400"
    ],
    "machine-check-logged": ["mce: [Hardware Error]: Machine check events logged"],
    "kernel-stuck": ["INFO: task python3:4123 blocked for more than 120 seconds."],
    "amdgpu-memory": ["amdgpu 0000:c1:00.0: amdgpu: uncorrectable hardware errors detected in umc"],
    "container-gpu-unknown": ["nvidia-container-cli: device error: GPU-1234: unknown device"],
    "container-cgroups": [
        "nvidia-container-cli: mount error: failed to add device rules: unable to find any "
        "existing device filters attached to the cgroup: bpf_prog_query(BPF_CGROUP_DEVICE) failed"
    ],
    "nvml-denied": ["Failed to initialize NVML: Insufficient Permissions"],
    "wsl-blocked": ["Failed to initialize NVML: GPU access blocked by the operating system"],
    "k8s-no-gpu": ["0/3 nodes are available: 3 Insufficient nvidia.com/gpu."],
    "more-ranks-than-told": [
        "RuntimeError: Timed out initializing process group in store based barrier on rank: 2, for "
        "key: store_based_barrier_key:1 (world_size=2, worker_count=4, timeout=0:30:00)"
    ],
    "store-silent": [
        "[W228 18:45:15.738 socket.cpp:462] [c10d] waitForInput: poll for socket SocketImpl(fd=11, "
        "addr=[n1]:38674, remote=[n1]:23456) returned 0, likely a timeout"
    ],
    "gloo-no-interface": [
        "[enforce fail at /opt/conda/gloo/transport/tcp/device.cc:83] ifa != nullptr. Unable to "
        "find address for: eth0"
    ],
    "gloo-loopback": [
        "[W ProcessGroupGloo.cpp:715] Warning: Unable to resolve hostname to a (local) address. "
        "Using the loopback address as fallback."
    ],
    "split-does-not-fit": ["AssertionError: 151670 is not divisible by 7"],
    "remote-shell-failed": ["pdsh@n1: n2: ssh exited with exit code 255"],
    "ranks-missing": [
        "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 1/2 "
        "clients joined."
    ],
    "host-unresolved": [
        "[W socket.cpp:601] [c10d] The IPv6 network addresses of (node-0, 29500) cannot be "
        "retrieved (gai error: -2 - Name or service not known)."
    ],
    "store-gone": ["[W TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=4, addr=[n1]:5)"],
    "job-ended-by-scheduler": [
        "slurmstepd: error: *** STEP 123.0 ON n1 CANCELLED AT 2026-11-22T10:00:00 DUE TO TIME LIMIT"
    ],
    "stopped-by-signal": [
        "torch.distributed.elastic.multiprocessing.api.SignalException: Process 4123 got signal: 15"
    ],
    "slurm-gres": [
        "srun: error: Unable to create step: Invalid generic resource (gres) specification"
    ],
    "mpi-daemon": ["An ORTE daemon has unexpectedly failed after launch and before communicating"],
    "mpi-slots": ["There are not enough slots available in the system to satisfy the 16 slots"],
    "mpi-interface": [
        "[n1][[38531,1],3][btl_tcp_endpoint.c:626] connect() to 172.17.0.1 failed: refused"
    ],
    "ucx-unreachable": ["UCX  ERROR Transport retry count exceeded on mlx5_0:1/RoCE (synd 0x15)"],
    "gpu-memory-taken": [
        "ValueError: Free memory on device cuda:0 (7.2/79.1 GiB) on startup is less than desired "
        "GPU memory utilization (0.9, 71.2 GiB)."
    ],
    "engine-failed": ["RuntimeError: Engine core initialization failed. See root cause above."],
    "workers-silent": [
        "shm_broadcast.py:466] No available shared memory broadcast block found in 60 seconds."
    ],
    "custom-all-reduce-off": [
        "Custom allreduce is disabled because it's not supported on more than two PCIe-only GPUs."
    ],
    "ddp-unused": [
        "RuntimeError: Expected to have finished reduction in the prior iteration before starting"
    ],
    "group-missing": [
        "ValueError: Default process group has not been initialized, please make sure"
    ],
    "cuda-runtime-missing": [
        "ImportError: libcudart.so.12: cannot open shared object file: No such file or directory"
    ],
    "cuda-symbol-missing": [
        "ImportError: libtorch_cuda.so: undefined symbol: cudaGetDriverEntryPoint"
    ],
    "math-library-failed": ["RuntimeError: cuDNN error: CUDNN_STATUS_INTERNAL_ERROR"],
    "task-gone": [
        "The following tasks are unhealthy (stopped sending heartbeats): /job:jax/task:3"
    ],
    "bar-unassigned": ["nvidia 0000:84:00.0: BAR 1 [mem size 0x800000000 64bit]: can't assign"],
    "gpu-silent-at-start": [
        "NVRM: The NVIDIA GPU 0000:00:06.0 (PCI ID: 10de:2484) installed in this system has fallen "
        "off the bus and is not responding to commands."
    ],
    "mig-no-instance": ["slurmd: fatal: MIG mode is enabled, but no MIG devices were found."],
    "mtu-small": ["ens4: flags=4163<UP,BROADCAST,RUNNING,MULTICAST>  mtu 1460"],
    "xla-waiting": [
        "rendezvous.cc:38] This thread has been waiting for `initialize clique for rank 6` for 10 "
        "seconds and may be stuck. Expected 8 threads to join the rendezvous"
    ],
    "invalid-usage-unsaid": [
        "ncclInvalidUsage: This usually reflects invalid usage of NCCL library."
    ],
    "container-without-gpu": [
        "Error: crun: executable file `nvidia-smi` not found in $PATH: No such"
    ],
    "container-driver-failed": [
        "nvidia-container-cli: initialization error: driver error: failed to process request"
    ],
    "gpu-memory-held": ["GPU  PID  Name  Memory", "  0  2505781   sglang::scheduler   100998 MiB"],
    "ucx-without-cuda": ["4 NVIDIA GPU(s) were detected, but UCX CUDA support was not found!"],
    "rccl-hosts-differ": ["RCCL FATAL: mismatched Rome preset topology model index across ranks"],
    "one-name-for-all-hosts": [
        "mpirun -np 2 -x NCCL_SOCKET_IFNAME=enp6s0 ./all_reduce_perf -b 8 -e 128M -g 1",
        "# nThread 1 nGpus 1 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5",
        "#",
        "# Using devices",
        "#  Rank  0 Group  0 Pid 3740409 on      node4 device  0 [0x01] NVIDIA RTX A6000",
        "#  Rank  1 Group  0 Pid 3164639 on      node1 device  0 [0x01] NVIDIA RTX A6000",
        "node1: Test NCCL failure common.cu:959 'internal error - please report this issue'",
    ],
}

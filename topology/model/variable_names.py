"""Which names may be shown and stored; no other variable ever is.

Kept apart from the catalogue, because the live source asks for it before the first picture and
the catalogue takes a while to read. A test holds the two together.
"""

PREFIXES = (
    *("NCCL_", "RCCL_", "TORCH_NCCL_", "HSA_", "FI_EFA_", "PYTORCH_TUNABLE"),
    *("UCX_", "NVSHMEM_", "GLOO_", "NIXL_", "OMPI_MCA_", "VLLM_", "SGLANG_"),
)
"""Variables that begin like this may be shown: typing errors among them are worth reporting."""

NAMES = frozenset(
    {
        "AMD_LOG_LEVEL",
        "AMD_SERIALIZE_COPY",
        "AMD_SERIALIZE_KERNEL",
        "CUDA_DEVICE_MAX_CONNECTIONS",
        "CUDA_DEVICE_ORDER",
        "CUDA_LAUNCH_BLOCKING",
        "CUDA_MODULE_LOADING",
        "CUDA_MPS_PIPE_DIRECTORY",
        "CUDA_VISIBLE_DEVICES",
        "DISABLE_ADDMM_CUDA_LT",
        "DISABLE_ADDMM_HIP_LT",
        "FI_CXI_DEFAULT_CQ_SIZE",
        "FI_CXI_DISABLE_HOST_REGISTER",
        "FI_CXI_RX_MATCH_MODE",
        "FI_HMEM_CUDA_USE_GDRCOPY",
        "FI_MR_CACHE_MONITOR",
        "FI_PROVIDER",
        "GPU_DEVICE_ORDINAL",
        "GPU_MAX_HW_QUEUES",
        "HIPBLASLT_WORKSPACE_SIZE",
        "HIP_FORCE_DEV_KERNARG",
        "HIP_HIDDEN_FREE_MEM",
        "HIP_HOST_COHERENT",
        "HIP_LAUNCH_BLOCKING",
        "HIP_VISIBLE_DEVICES",
        "NPKIT_DUMP_DIR",
        "NVIDIA_VISIBLE_DEVICES",
        "OFI_NCCL_DISABLE_DMABUF",
        "OFI_NCCL_DISABLE_GDR_REQUIRED_CHECK",
        "OFI_NCCL_DISABLE_NATIVE_RDMA_CHECK",
        "OFI_NCCL_EXCLUDE_TCP_IF",
        "OFI_NCCL_FORCE_NUM_RAILS",
        "OFI_NCCL_GDR_FLUSH_DISABLE",
        "OFI_NCCL_MR_CACHE_DISABLE",
        "OFI_NCCL_NIC_DUP_CONNS",
        "OFI_NCCL_PROTOCOL",
        "OFI_NCCL_TUNER_TYPE",
        "OMPI_ALLOW_RUN_AS_ROOT",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "PYTORCH_ALLOC_CONF",
        "PYTORCH_CUDA_ALLOC_CONF",
        "PYTORCH_HIP_ALLOC_CONF",
        "RDMAV_FORK_SAFE",
        "ROCBLAS_USE_HIPBLASLT",
        "ROCR_VISIBLE_DEVICES",
        "ROC_GLOBAL_CU_MASK",
        "TORCH_BLAS_PREFER_HIPBLASLT",
        "TORCH_DISTRIBUTED_DEBUG",
        "TORCH_FR_BUFFER_SIZE",
        "TORCH_FR_CPP_STACK",
        "TORCH_FR_DUMP_DYNAMIC_FILE_NAME",
        "TORCH_FR_DUMP_TEMP_FILE",
        "TORCH_GLOO_LAZY_INIT",
        "TORCH_INCLUDE_ONLY_ACTIVE",
        "TORCH_INCLUDE_STACK_TRACE",
        "TORCH_SYMM_MEM_DISABLE_MULTICAST",
    }
)


SECRETS = ("TOKEN", "SECRET", "PASSW", "CREDENTIAL", "APIKEY", "API_KEY", "PRIVATE", "_PSK")
"""A name with one of these words is somebody's secret, however it begins."""


def listed(name: str) -> bool:
    """Whether a variable of that name may be shown and stored."""
    if name in NAMES:
        return True
    upper = name.upper()
    return name.startswith(PREFIXES) and not any(word in upper for word in SECRETS)

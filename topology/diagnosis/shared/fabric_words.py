"""Words about the fabric of NVSwitches that several rules say."""

GONE = "GPU is lost"
"""NVML's word for a GPU that fell off the bus, which it also gives as the registration's end."""
RESTART = (
    "Restart the fabric manager, whose version must be that of the driver; on HGX A100 and older "
    "that ends the CUDA programs that run. # systemctl restart nvidia-fabricmanager"
)
"""ABORT_CUDA_JOBS_ON_FM_EXIT is 1 by default, and has no effect from HGX H100 on (NVIDIA Fabric
Manager user guide)."""

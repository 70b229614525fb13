"""The functions of NVML that are asked without arguments but the GPU, by how often."""

from __future__ import annotations

SYSTEM = (
    "nvmlSystemGetDriverVersion",
    "nvmlSystemGetNVMLVersion",
    "nvmlSystemGetCudaDriverVersion_v2",
    "nvmlSystemGetConfComputeState",
)
IDENTITY = (
    "nvmlDeviceGetName",
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetSerial",
    "nvmlDeviceGetVbiosVersion",
    "nvmlDeviceGetIndex",
    "nvmlDeviceGetMinorNumber",
    "nvmlDeviceGetBoardId",
    "nvmlDeviceGetBoardPartNumber",
    "nvmlDeviceGetModuleId",
    "nvmlDeviceGetArchitecture",
    "nvmlDeviceGetCudaComputeCapability",
    "nvmlDeviceGetNumGpuCores",
    "nvmlDeviceGetMemoryBusWidth",
    "nvmlDeviceGetMaxPcieLinkGeneration",
    "nvmlDeviceGetGpuMaxPcieLinkGeneration",
    "nvmlDeviceGetMaxPcieLinkWidth",
    "nvmlDeviceGetPowerManagementDefaultLimit",
    "nvmlDeviceGetPowerManagementLimitConstraints",
    "nvmlDeviceGetVirtualizationMode",
    "nvmlDeviceGetGspFirmwareVersion",
    "nvmlDeviceGetNumaNodeId",
    "nvmlDeviceGetC2cModeInfoV",
)
SETTINGS = (
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetBAR1MemoryInfo",
    "nvmlDeviceGetEnforcedPowerLimit",
    "nvmlDeviceGetEccMode",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetPersistenceMode",
    "nvmlDeviceGetComputeMode",
)
UNWIRED = ("nvmlDeviceGetEccMode", "nvmlDeviceGetEnforcedPowerLimit")
"""Settings that say nothing of how devices are connected, and take long."""
EACH_TIME = (
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetPerformanceState",
    "nvmlDeviceGetCurrPcieLinkGeneration",
)
SLOWLY = (
    "nvmlDeviceGetCurrPcieLinkWidth",
    "nvmlDeviceGetBAR1MemoryInfo",
    "nvmlDeviceGetPcieReplayCounter",
    "nvmlDeviceGetRemappedRows",
    "nvmlDeviceGetRetiredPagesPendingStatus",
    "nvmlDeviceGetUnrepairableMemoryFlag_v1",
)
OTHERS = (
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetComputeRunningProcesses",
    "nvmlDeviceGetGraphicsRunningProcesses",
    "nvmlDeviceGetMPSComputeRunningProcesses",
    "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetMemoryInfo_v2",
)
"""Functions that have several versions, or that stand in for a field value."""

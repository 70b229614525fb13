"""The functions of NVML that a stand-in has, and where a profile has their answers."""

from __future__ import annotations

LINK_ANSWERS = {
    "nvmlDeviceGetNvLinkState": "state",
    "nvmlDeviceGetNvLinkVersion": "version",
    "nvmlDeviceGetNvLinkRemotePciInfo_v2": "remote_pci",
    "nvmlDeviceGetNvLinkRemoteDeviceType": "remote_type",
    "nvmlDeviceGetNvLinkCapability": "cap0",
}
"""Function: the key of its answer in one of a device's links."""
NUMBERED = {
    "nvmlDeviceGetMaxClockInfo": "maxclock{}",
    "nvmlDeviceGetTemperatureThreshold": "threshold{}",
    "nvmlDeviceGetClockInfo": "clock{}",
    "nvmlDeviceGetTotalEccErrors": "ecc{}{}",
    "nvmlDeviceGetRetiredPages": "retired{}",
}
"""Function: the key of its answer, with the numbers that it is asked with."""
RENAMED = {
    "nvmlDeviceGetCpuAffinity": "cpu_affinity",
    "nvmlDeviceGetMemoryAffinity": "mem_affinity",
    "nvmlDeviceGetTemperature": "temp",
    "nvmlDeviceGetTemperatureV": "temp",
    "nvmlDeviceGetGpuFabricInfoV": "fabric",
    "nvmlDeviceGetGpuFabricInfo": "fabric",
}
LISTS = (
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetGraphicsRunningProcesses_v3",
    "nvmlDeviceGetMPSComputeRunningProcesses_v3",
)
LISTED = (*LISTS, "nvmlDeviceGetRetiredPages")
"""Functions that give a list: they are asked how long it is, and then for the list."""
DEVICE = (
    "nvmlDeviceGetName", "nvmlDeviceGetUUID", "nvmlDeviceGetSerial", "nvmlDeviceGetVbiosVersion",
    "nvmlDeviceGetIndex", "nvmlDeviceGetMinorNumber", "nvmlDeviceGetBoardId",
    "nvmlDeviceGetBoardPartNumber", "nvmlDeviceGetModuleId", "nvmlDeviceGetArchitecture",
    "nvmlDeviceGetCudaComputeCapability", "nvmlDeviceGetNumGpuCores",
    "nvmlDeviceGetMemoryBusWidth", "nvmlDeviceGetMaxPcieLinkGeneration",
    "nvmlDeviceGetGpuMaxPcieLinkGeneration", "nvmlDeviceGetMaxPcieLinkWidth",
    "nvmlDeviceGetPowerManagementDefaultLimit", "nvmlDeviceGetPowerManagementLimitConstraints",
    "nvmlDeviceGetVirtualizationMode", "nvmlDeviceGetGspFirmwareVersion",
    "nvmlDeviceGetNumaNodeId", "nvmlDeviceGetC2cModeInfoV", "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetBAR1MemoryInfo", "nvmlDeviceGetEnforcedPowerLimit",
    "nvmlDeviceGetEccMode", "nvmlDeviceGetMigMode", "nvmlDeviceGetPersistenceMode",
    "nvmlDeviceGetComputeMode", "nvmlDeviceGetUtilizationRates", "nvmlDeviceGetPerformanceState",
    "nvmlDeviceGetCurrPcieLinkGeneration", "nvmlDeviceGetCurrPcieLinkWidth",
    "nvmlDeviceGetPcieReplayCounter", "nvmlDeviceGetRemappedRows",
    "nvmlDeviceGetRetiredPagesPendingStatus", "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetUnrepairableMemoryFlag_v1",
    "nvmlDeviceGetPowerUsage", *NUMBERED, *RENAMED, *LINK_ANSWERS, *LISTS,
    "nvmlDeviceGetP2PStatus", "nvmlDeviceGetTopologyCommonAncestor", "nvmlDeviceGetFieldValues",
)  # fmt: skip
"""Functions about one GPU."""
SYSTEM = (
    "nvmlSystemGetDriverVersion", "nvmlSystemGetNVMLVersion", "nvmlSystemGetCudaDriverVersion_v2",
    "nvmlSystemGetConfComputeState",
)  # fmt: skip
OPENING = (
    "nvmlInitWithFlags", "nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2",
    "nvmlDeviceGetPciInfo_v3",
)  # fmt: skip
"""Functions that find the GPUs: what fails here leaves no GPU to ask."""
GETTERS = (*DEVICE, *SYSTEM)
EXPORTED = frozenset((*OPENING, *GETTERS, "nvmlShutdown", "nvmlErrorString"))

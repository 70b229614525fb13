"""AMD GPUs by the files of the driver amdgpu in sysfs."""

"""Faults that the kernel's log tells of, and what each means: Xid, SXid, PCIe, amdgpu, mlx5."""

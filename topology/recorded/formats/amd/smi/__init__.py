"""What amd-smi and rocm-smi print of a GPU, read piece by piece."""

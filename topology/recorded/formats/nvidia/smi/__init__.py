"""What nvidia-smi prints of a GPU, read piece by piece."""

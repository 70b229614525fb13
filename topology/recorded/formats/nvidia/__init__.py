"""What NVIDIA's tools print."""

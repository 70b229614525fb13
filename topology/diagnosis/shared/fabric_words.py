"""Words of a GPU's registration with the fabric that say something of the GPU itself."""

GONE = "GPU is lost"
"""NVML's word for a GPU that fell off the bus, which it also gives as the registration's end."""

"""The processes on the GPUs: which job they belong to and where they run."""

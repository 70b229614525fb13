"""The processes on the GPUs: who they belong to and where they run."""

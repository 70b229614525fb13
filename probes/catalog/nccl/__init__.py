"""The probe nccl."""

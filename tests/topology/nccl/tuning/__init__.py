"""Tests of topology/nccl/tuning."""

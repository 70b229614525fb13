"""Tests of topology/nccl/hosts."""

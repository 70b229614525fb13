"""Tests of topology/nccl."""

"""Tests of topology/nccl/xml."""

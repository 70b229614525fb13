"""Tests of topology/exports."""

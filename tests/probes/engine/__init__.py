"""Tests of the engine that copies through the driver."""

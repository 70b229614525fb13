"""Tests of topology/flags."""

"""Tests of topology/flags/account."""

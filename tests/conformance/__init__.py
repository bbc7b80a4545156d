"""Tests of the package `emulator.conformance`."""

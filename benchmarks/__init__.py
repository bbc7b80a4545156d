"""Benchmarks: ratios against a floor in the same run, never timed tests."""

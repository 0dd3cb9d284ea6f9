"""Intervals, exact tests, mask sampling and closed forms: mathematics in numpy, without a model."""

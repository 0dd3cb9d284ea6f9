"""The mathematics behind the removal methods, in numpy alone: limits, exact games, sampling, adjustment."""

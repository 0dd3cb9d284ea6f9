"""Models that labs train or build."""

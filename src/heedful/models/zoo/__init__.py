"""Models that come with heedful or are pulled once and kept."""

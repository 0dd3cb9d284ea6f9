"""Models without some heads."""

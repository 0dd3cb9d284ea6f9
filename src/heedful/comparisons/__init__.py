"""`heedful.explain`: several methods on one prediction, side by side."""

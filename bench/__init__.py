"""Side by side with rivals: one file a workload, ratios from one process, results as JSON."""

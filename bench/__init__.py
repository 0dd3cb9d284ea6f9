"""Side by side with rivals: one file per workload, ratios from one process, results as JSON."""

# In the order of docs/benchmarks.md; each is a module with TITLE and run() -> list[Ratio].
WORKLOADS = (
    "trace",
    "lime_rows",
    "lime_error",
    "shap_error",
    "integrated",
    "generated",
    "everything",
    "memory",
    "rows",
    "reference",
    "harvest",
    "sae_relu",
    "sae_topk",
    "pictures",
)

"""Model inputs of an audit, asked for, run and naive: python -m bench.audit_rows [TEXTS [MODEL]].

12 methods, 6 metrics, two operators; naive is defined in heedful.audits.shard. Counts, not times: they
are the same on every machine. Not among the workloads of `make bench`, since it takes minutes for 100 texts.
"""

from __future__ import annotations

import sys
import tempfile
import time

import heedful
from bench.audit_texts import sentences

METHODS = (
    "attention-avg",
    "attention-max",
    "attention-rollout",
    "chefer",
    "grad-avg",
    "grad-l2",
    "grad-x-input",
    "integrated-gradients",
    "smoothgrad",
    "kernel-shap",
    "lime",
    "occlusion",
)
AT_MOST = 0.4


def main(texts: int, model: str) -> None:
    started = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        cost = heedful.audit(model, sentences(texts), methods=METHODS, full=True, out=folder).cost
    spent = time.process_time() - started
    for name in ("naive", "asked", "run"):
        print(f"{name:6}{cost[name]:>12,}{cost[name] / cost['naive']:>8.1%} of naive")
    share = cost["run"] / cost["naive"]
    print(f"{texts} texts, {spent:.0f} seconds of processor; {share:.1%} should be at most {AT_MOST:.0%}")


if __name__ == "__main__":
    main(
        int(sys.argv[1]) if len(sys.argv) > 1 else 100, sys.argv[2] if len(sys.argv) > 2 else "zoo:sentiment"
    )

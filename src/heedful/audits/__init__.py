"""`heedful.audit`: every method on many texts, weighed by every metric, resumable.

    source      a CSV, JSONL or Parquet file, or any iterable, row by row
    settings    what the results depend on besides the rows: methods, metrics, operators, seed, ...
    weighing    one text, one shard: explanations and their scores, as the bytes of Parquet files
    folder      the run folder: manifest, shards, what is done and what is not
    given       scores made elsewhere, as they came; alignment lays them on our units, scores_file reads a
                file of them, outside looks them up row by row, weigh_scores is `heedful.weigh`
    foretold    what an audit would cost, and what so many texts would show
    result      the table and the verdict from the shards of a finished run
    deciding    whether the texts so far settle the verdict
    start       puts them together

A shard's bytes depend on the settings and its own rows, on nothing that ran before: that is what makes a run
that was killed ten times end with the same bytes as one that was not, on one machine or on many.
"""

from __future__ import annotations

from heedful.audits.api import audit
from heedful.audits.result import Audit

__all__ = ["Audit", "audit"]

"""`heedful.audit`: every method on many texts, weighed by every metric, resumable.

    api               `audit`: puts the others together
    settings          what the results depend on besides the rows: methods, metrics, operators, seed, ...
    shard             one text, one shard: explanations and their scores, as the bytes of Parquet files
    schemas           the columns of these files
    audit_run         the shards on disk: what is done and what is not
    result            the table and the verdict from the shards of a finished run
    stopping          whether the texts so far settle the verdict
    estimate          what an audit would cost, and what so many texts would show
    weigh             `heedful.weigh`: scores made elsewhere
    score_formats     such scores, as they came; score_alignment lays them on our units, scores_file reads a
                      file of them, external_scores looks them up row by row

A shard's bytes depend on the settings and its own rows, on nothing that ran before: that is what makes a run
that was killed ten times end with the same bytes as one that was not, on one machine or on many.
"""

from __future__ import annotations

from heedful.audits.api import audit
from heedful.audits.result import Audit

__all__ = ["Audit", "audit"]

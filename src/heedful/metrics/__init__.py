"""How far an explanation is right: one family of metrics per file; scores, summaries and the verdict."""

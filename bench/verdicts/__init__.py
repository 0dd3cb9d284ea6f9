"""How often a verdict is wrong: simulated audits, and real ones of models whose reasons are known."""

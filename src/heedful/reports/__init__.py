"""Drawing: the terminal, the report and the notebook, from a `Comparison` alone. No torch here."""

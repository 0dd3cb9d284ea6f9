"""Set features while a model runs."""

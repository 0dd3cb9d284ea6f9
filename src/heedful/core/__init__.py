"""Data and contracts that everything else speaks. No torch."""

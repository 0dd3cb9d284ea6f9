"""What features fire on and do."""

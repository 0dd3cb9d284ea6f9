"""What clients send and get."""

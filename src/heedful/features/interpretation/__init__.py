"""What features mean, in rules or words, and how far that predicts them."""

"""What explains and trains again: remove and retrain, gold features."""

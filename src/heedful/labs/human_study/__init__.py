"""The page on which people take the test of the lab choose-the-classifier."""

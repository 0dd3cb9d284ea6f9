"""Files: datasets, labels, rationales and run folders."""

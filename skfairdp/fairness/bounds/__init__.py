"""Upper bounds on gaps and leakage, one file for each way to know them."""

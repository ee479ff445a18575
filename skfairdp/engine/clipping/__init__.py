"""Clipping of records to bounded sums: all methods, and the choice between them."""

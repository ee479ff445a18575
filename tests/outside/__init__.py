"""Comparisons of printed figures with those of other packages."""

"""Digests of everything that predictions of a fitted model depend on."""

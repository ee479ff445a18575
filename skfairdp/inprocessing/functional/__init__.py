"""Noise on the coefficients of the objective, then a closed form."""

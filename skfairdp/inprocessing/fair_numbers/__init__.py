"""Regressors with groups' predictions alike, as scores and released tables of them."""

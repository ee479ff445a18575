"""Fair regressors: private scores, and released tables of them."""

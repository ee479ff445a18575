"""Empirical lower bounds on epsilon: a test of the claim, never a proof of it.

An audit hides records ("canaries") among the training rows, guesses from the released
model which ones were there, and asks how surprising the right guesses are under the
claim. A lower bound above the claimed epsilon shows, at the stated confidence, that the
implementation or its accounting is wrong. A bound below it shows only that this attack
failed.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

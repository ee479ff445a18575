"""Randomised values in whole numbers: geometric, randomised response, rounded Gaussian."""

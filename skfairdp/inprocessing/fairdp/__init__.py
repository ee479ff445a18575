"""FairDP: equally weighted per-group clipped gradients, Gaussian noise, bounded last layer."""

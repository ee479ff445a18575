"""Learning that protects the sensitive attribute alone."""

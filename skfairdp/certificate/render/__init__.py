"""The forms of a certificate: all of them show the sections that `sections` makes of its claims."""

"""Forms of a certificate: each shows the sections that `sections` makes of its claims."""

"""How much one variable tells about another: estimates, a proved lower bound, a test."""

"""Private rows to a bounded sum: every way to clip records, and the choice between them."""

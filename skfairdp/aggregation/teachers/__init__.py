"""Teachers on disjoint shards: how they are trained, kept apart and asked."""

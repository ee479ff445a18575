"""Teachers on disjoint shards: training, isolation and votes."""

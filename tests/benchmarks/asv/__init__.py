"""Benchmarks of versions: asv run --config tests/benchmarks/asv.conf.json."""

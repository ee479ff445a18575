"""Rows of the tests of certificates."""

from tests.certificate.conftest import rows  # noqa: F401 - a fixture

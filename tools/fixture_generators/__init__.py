"""Generators of the files under fixtures/; tools/make_fixtures.py runs them."""

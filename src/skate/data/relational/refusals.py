"""Reasons not to use Polars: neither reaches the user, because the ordinary way runs instead."""

from __future__ import annotations


class Unproven(Exception):
    """A part of a plan whose result in Polars is not certain to be the same."""


class StageRefused(Exception):
    """Polars failed before the first result of a stage. The ordinary way raises what is wrong, if it fails as well."""

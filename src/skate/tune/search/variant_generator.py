"""Variants, by the names that programs know from `ray.tune.search.variant_generator`."""

from __future__ import annotations

from skate.tune.space.functions import grid_search
from skate.tune.space.variants import RecursiveDependencyError, format_vars, generate_variants

__all__ = ["RecursiveDependencyError", "format_vars", "generate_variants", "grid_search"]

"""Functions and classes in other languages, which Skate's workers cannot run."""

from __future__ import annotations

from skate.client.cross_language import cpp_actor_class, cpp_function, java_actor_class, java_function

__all__ = ["cpp_actor_class", "cpp_function", "java_actor_class", "java_function"]

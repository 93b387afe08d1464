"""InferenceOnlyAPI: modules with parts that only training needs."""

from __future__ import annotations

import abc


class InferenceOnlyAPI(abc.ABC):
    """A module that can leave out what only training needs, for example on environment runners."""

    @abc.abstractmethod
    def get_non_inference_attributes(self) -> list[str]:
        """Return the names of attributes that only training needs, such as ``["vf", "encoder.critic_encoder"]``."""

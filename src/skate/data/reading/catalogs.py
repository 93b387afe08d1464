"""Catalogs of tables. There is no client of Databricks' Unity Catalog here: its names exist, and say so."""

from __future__ import annotations

from typing import Any, NoReturn


def from_catalog(function: str, catalog: Any, given: dict[str, Any] | None = None) -> NoReturn:
    """Raise NotImplementedError saying what to do instead."""
    raise NotImplementedError(
        f"{function}(catalog=...) needs a client of Databricks' Unity Catalog, which Skate does not have; look up the table's "
        f"storage path and read that, with filesystem= or storage_options= for its credentials"
    )

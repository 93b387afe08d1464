"""Parts of a dataset as datasets or iterators."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from skate.data.dataset.base import DatasetBase
from skate.data.exceptions import omit_traceback_stdout
from skate.data.execution.bundle import Bundle
from skate.data.iteration.stream_split import streaming_split
from skate.data.plan import knowledge
from skate.data.plan import operators as logical

if TYPE_CHECKING:
    from skate.data.dataset import Dataset, MaterializedDataset
    from skate.data.iteration.iterator import DataIterator


class Splitting(DatasetBase):
    """Methods that split a dataset into datasets or iterators."""

    @omit_traceback_stdout
    def split(
        self, n: int, *, equal: bool = False, locality_hints: Sequence[Any] | None = None
    ) -> list[MaterializedDataset]:
        """Run the dataset and split its rows into `n` datasets, in order.

        With `equal` all have the same number of rows and up to n - 1 rows are dropped; otherwise each gets the same
        number of blocks, the first ones one more if necessary. Blocks are cut only if there are fewer than `n`.
        `locality_hints` (one actor per part) are accepted for compatibility. Raises ValueError for `n` below 1.
        """
        if n < 1:
            raise ValueError(f"The number of splits {n} is not positive.")
        if locality_hints is not None and len(locality_hints) != n:
            raise ValueError(
                f"The length of locality_hints {len(locality_hints)} doesn't equal the number of splits {n}; "
                "pass one for each split"
            )
        bundles = list(self._run())
        if not equal and len(bundles) >= n:
            each, more = divmod(len(bundles), n)
            starts = [each * i + min(i, more) for i in range(n + 1)]
            return [self._held(bundles[low:high], self._label()) for low, high in pairwise(starts)]
        rows = sum(bundle.rows for bundle in bundles)
        each = rows // n if equal else -(-rows // n)
        ends = [min(rows, each * (i + 1)) for i in range(n)]
        return self._cut(bundles, ends)

    @omit_traceback_stdout
    def split_at_indices(self, indices: Sequence[int]) -> list[MaterializedDataset]:
        """Run the dataset and split it before the rows with these indices, into one more part than there are indices.

        Raises ValueError unless the indices are sorted and none is negative.
        """
        if not indices:
            raise ValueError(
                "indices must be at least of length 1; each is the index of the first row of a split"
            )
        if any(low > high for low, high in pairwise(indices)):
            raise ValueError(f"indices must be sorted, got {list(indices)}")
        if indices[0] < 0:
            raise ValueError(f"indices must be positive, got {indices[0]}")
        bundles = list(self._run())
        rows = sum(bundle.rows for bundle in bundles)
        return self._cut(bundles, [*(min(rows, index) for index in indices), rows])

    def split_proportionately(self, proportions: Sequence[float]) -> list[MaterializedDataset]:
        """Run the dataset and split it into parts with these proportions of the rows, plus one for the rest.

        Raises ValueError unless the proportions are above 0 and sum to less than 1, and if there are fewer
        rows than parts.
        """
        if not proportions:
            raise ValueError("proportions must be at least of length 1")
        if any(share <= 0 for share in proportions):
            raise ValueError(f"proportions must be bigger than 0, got {list(proportions)}")
        if sum(proportions) >= 1:
            raise ValueError(
                "proportions must sum to less than 1, because the rest forms the last part, but "
                f"{list(proportions)} sum to {sum(proportions):g}"
            )
        held = self.materialize()  # type: ignore[attr-defined]
        rows = sum(bundle.rows for bundle in held._plan.bundles)
        indices: list[int] = []
        total = 0.0
        for share in proportions:
            total += share
            indices.append(int(rows * total))
        # Every part gets a row if there are enough rows: cuts that coincide are moved apart, starting from the end.
        for at in range(len(indices) - 1, -1, -1):
            limit = indices[at + 1] if at + 1 < len(indices) else rows
            indices[at] = max(min(indices[at], limit - 1), 0)
        if not indices[0] or len(set(indices)) < len(indices):
            raise ValueError(
                f"Couldn't create non-empty splits with the given proportions: {len(indices) + 1} parts of {rows} rows"
            )
        found: list[MaterializedDataset] = held.split_at_indices(indices)
        return found

    def train_test_split(
        self,
        test_size: float,
        *,
        shuffle: bool = False,
        seed: int | None = None,
        stratify: str | None = None,
    ) -> tuple[MaterializedDataset, MaterializedDataset]:
        """Split into two datasets, one for training and one for testing.

        Args:
            test_size: the fraction of the rows to test with, between 0 and 1, or their number.
            shuffle: shuffle the rows first, with `seed`.
            stratify: a column whose values have the same distribution in both parts.
        """
        whole: Any = self
        if shuffle and stratify is not None:
            raise ValueError(
                "Cannot specify both 'shuffle=True' and 'stratify'; a stratified split keeps the order"
            )
        if shuffle:
            whole = whole.random_shuffle(seed=seed)
        if stratify is not None:
            return _stratified(whole, test_size, stratify)
        held = whole.materialize()
        rows = held.count()
        train, test = held.split_at_indices([rows - _test_rows(test_size, rows)])
        return train, test

    def streaming_train_test_split(
        self,
        test_size: float,
        *,
        split_type: str = "random",
        hash_column: str | None = None,
        seed: int | None = None,
        **ray_remote_kwargs: Any,
    ) -> tuple[Dataset, Dataset]:
        """Split lazily into two datasets: each row is assigned at random, or by the hash of a column.

        Raises ValueError unless 0 < test_size < 1, for another split_type, and unless "hash" has a column.
        """
        from skate.data.iteration.row_dealer import DealStep, fresh_seed  # rarely used

        if not 0 < test_size < 1:
            raise ValueError(f"test_size must be between 0 and 1, got {test_size}")
        if split_type not in ("random", "hash"):
            raise ValueError(f"Invalid split type: {split_type!r}; use 'random' or 'hash'")
        if split_type == "hash" and seed is not None:
            raise ValueError("seed is not supported for hash split, which is deterministic")
        if split_type == "random" and hash_column is not None:
            raise ValueError("hash_column is not supported for random split; use split_type='hash'")
        if split_type == "hash" and hash_column is None:
            raise ValueError("hash_column is required for hash split")
        chosen = fresh_seed() if seed is None else seed
        parts = []
        for part in ("train", "test"):
            step = DealStep(part, test_size, hash_column, chosen)
            parts.append(self._with(logical.Steps((self._plan,), (step,), f"Split({part})")))
        return parts[0], parts[1]

    def streaming_split(
        self, n: int, *, equal: bool = False, locality_hints: Sequence[Any] | None = None
    ) -> list[DataIterator]:
        """Return `n` iterators that share the rows of one run; consume them together, as often as you like.

        Args:
            equal: give every iterator the same number of rows, and drop up to n - 1 rows.
            locality_hints: the node of each consumer; accepted for compatibility.

        The dataset runs again whenever all iterators have started a new iteration. Iterators can be passed to actors.
        """
        if n < 1:
            raise ValueError(f"The number of splits {n} is not positive.")
        whole: Any = self
        return streaming_split(whole, n, equal)

    def _cut(self, bundles: Sequence[Bundle], ends: Sequence[int]) -> list[MaterializedDataset]:
        """Return datasets of the rows up to each of these indices."""
        parts: list[list[Bundle]] = [[] for _ in ends]
        number = at = 0
        for bundle in bundles:
            taken = 0
            while taken < bundle.rows and number < len(ends):
                rows = min(bundle.rows - taken, ends[number] - at)
                if rows:
                    parts[number].append(bundle if rows == bundle.rows else bundle.slice(taken, rows))
                taken += rows
                at += rows
                if at == ends[number] and taken < bundle.rows:
                    number += 1
            while number < len(ends) and at == ends[number] and bundle is not bundles[-1]:
                number += 1
        schema = next((bundle.schema for bundle in bundles if bundle.schema is not None), None)
        for part in parts:
            if not part and schema is not None:
                part.append(Bundle.of(schema.empty_table()))
        return [self._held(part, self._label()) for part in parts]

    def _label(self) -> str:
        return "FromPandas" if knowledge.native_format(self._plan) == "pandas" else "Split"


def _test_rows(test_size: Any, rows: int) -> int:
    """Return the number of rows to test with. Raises ValueError for sizes out of range, TypeError for other types."""
    if isinstance(test_size, bool) or not isinstance(test_size, (int, float)):
        raise TypeError(f"`test_size` must be int or float got {type(test_size)}: {test_size!r}")
    if isinstance(test_size, float):
        if not 0 < test_size < 1:
            raise ValueError(
                f"If `test_size` is a float, it must be bigger than 0 and smaller than 1. Got {test_size}."
            )
        return rows - int(rows * (1 - test_size))  # rounded the way train_test_split does
    if not 0 < test_size < rows:
        raise ValueError(
            f"If `test_size` is an int, it must be bigger than 0 and smaller than the size of the dataset ({rows}). Got "
            f"{test_size}."
        )
    return int(test_size)


def _stratified(whole: Any, test_size: float, column: str) -> tuple[Any, Any]:
    from skate.data.iteration.row_dealer import stratified_rows  # rarely used

    tables = list(whole._tables())
    rows = sum(table.num_rows for table in tables)
    share = _test_rows(test_size, rows) / rows if isinstance(test_size, int) else test_size
    if not 0 < share < 1:
        raise ValueError(f"test_size as a fraction must be between 0 and 1, got {test_size}")
    train, test = stratified_rows(tables, share, column)
    return whole._held([Bundle.of(train)], "Split"), whole._held([Bundle.of(test)], "Split")

"""Applying functions to rows and batches; combining datasets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from skate.data.compute import ComputeStrategy, requested
from skate.data.context import RandomSeedConfig
from skate.data.dataset.base import DatasetBase
from skate.data.exchange.seeds import Seeds
from skate.data.expressions.pandas_rules import by_rules_of_pandas
from skate.data.plan import knowledge
from skate.data.plan import operators as logical
from skate.data.steps.udf import Udf

if TYPE_CHECKING:
    from skate.data.dataset import Dataset

_FORMATS = ("default", "numpy", "pandas", "pyarrow", "cudf", None)
#: Options of a map's tasks that are passed to `remote` under the same names.
_OPTIONS = (
    "num_cpus", "num_gpus", "memory", "label_selector", "fallback_strategy", "max_calls", "resources",
    "accelerator_type", "runtime_env",
)  # fmt: skip


class Transforms(DatasetBase):
    """Methods that apply functions to rows and batches, and combine datasets."""

    def map(
        self,
        fn: Callable[..., dict[str, Any]] | type,
        *,
        compute: ComputeStrategy | None = None,
        fn_args: Iterable[Any] | None = None,
        fn_kwargs: dict[str, Any] | None = None,
        fn_constructor_args: Iterable[Any] | None = None,
        fn_constructor_kwargs: dict[str, Any] | None = None,
        num_cpus: float | None = None,
        num_gpus: float | None = None,
        memory: float | None = None,
        concurrency: Any = None,
        label_selector: dict[str, str] | None = None,
        fallback_strategy: list[dict[str, Any]] | None = None,
        max_calls: int | None = None,
        resources: dict[str, float] | None = None,
        accelerator_type: str | None = None,
        runtime_env: dict[str, Any] | None = None,
        ray_remote_args_fn: Callable[[], dict[str, Any]] | None = None,
        **ray_remote_args: Any,
    ) -> Dataset:
        """Apply a function to each row.

        Args:
            fn: takes a row, a dict of column name to value, and returns one; a class is constructed once in
                each actor of a pool and called for each row. Coroutine functions are awaited.
            compute: a TaskPoolStrategy for functions, an ActorPoolStrategy for classes.
            fn_args, fn_kwargs: passed to each call after the row.
            fn_constructor_args, fn_constructor_kwargs: passed to the constructor of a class.
            num_cpus, num_gpus, memory, resources, ...: requirements of each task or actor, as in `remote`.
            concurrency: older alternative to `compute`.
            ray_remote_args_fn: returns options of `remote`, called for each task or actor.
        """
        given = locals()
        return self._mapped("map", given)

    def flat_map(
        self,
        fn: Callable[..., Any] | type,
        *,
        compute: ComputeStrategy | None = None,
        fn_args: Iterable[Any] | None = None,
        fn_kwargs: dict[str, Any] | None = None,
        fn_constructor_args: Iterable[Any] | None = None,
        fn_constructor_kwargs: dict[str, Any] | None = None,
        num_cpus: float | None = None,
        num_gpus: float | None = None,
        memory: float | None = None,
        concurrency: Any = None,
        label_selector: dict[str, str] | None = None,
        fallback_strategy: list[dict[str, Any]] | None = None,
        max_calls: int | None = None,
        resources: dict[str, float] | None = None,
        accelerator_type: str | None = None,
        runtime_env: dict[str, Any] | None = None,
        ray_remote_args_fn: Callable[[], dict[str, Any]] | None = None,
        **ray_remote_args: Any,
    ) -> Dataset:
        """Replace each row with any number of rows: a list or generator of dicts. Arguments as for `map`."""
        given = locals()
        return self._mapped("flat_map", given)

    def filter(
        self,
        fn: Callable[..., Any] | type | None = None,
        expr: Any = None,
        *,
        compute: ComputeStrategy | None = None,
        fn_args: Iterable[Any] | None = None,
        fn_kwargs: dict[str, Any] | None = None,
        fn_constructor_args: Iterable[Any] | None = None,
        fn_constructor_kwargs: dict[str, Any] | None = None,
        num_cpus: float | None = None,
        num_gpus: float | None = None,
        memory: float | None = None,
        concurrency: Any = None,
        label_selector: dict[str, str] | None = None,
        fallback_strategy: list[dict[str, Any]] | None = None,
        max_calls: int | None = None,
        resources: dict[str, float] | None = None,
        accelerator_type: str | None = None,
        runtime_env: dict[str, Any] | None = None,
        ray_remote_args_fn: Callable[[], dict[str, Any]] | None = None,
        **ray_remote_args: Any,
    ) -> Dataset:
        """Keep the rows for which a function or an expression is true; null is not true.

        `expr` is an expression of `skate.data.expressions`, or one as a string: "age > 30 and name == 'x'". Arguments as for
        `map`. Raises ValueError unless exactly one of `fn` and `expr` is given.
        """
        given = locals()
        if (fn is None) == (expr is None):
            got = "both" if fn is not None else "neither"
            raise ValueError(f"Exactly one of 'fn' or 'expr' must be provided, but {got} is")
        if expr is None:
            return self._mapped("filter", given)
        given_to_fn = (fn_args, fn_kwargs, fn_constructor_args, fn_constructor_kwargs)
        if any(each is not None for each in given_to_fn):
            raise ValueError(
                "when 'expr' is used, 'fn_args/fn_kwargs' or 'fn_constructor_args/fn_constructor_kwargs' "
                "cannot be used: there is no function to pass them to"
            )
        if isinstance(expr, str):
            from skate.data.expressions.parser import parse  # expressions as text are rare

            expr = parse(expr)
        elif not hasattr(expr, "evaluate"):
            raise TypeError(
                f"Unsupported expression type for conversion: {type(expr)}; expr must be an "
                f"expression or a string, got {expr!r:.80}"
            )
        if knowledge.native_format(self._plan) == "pandas":
            expr = by_rules_of_pandas(expr)
        options = _remote_args(given)
        return self._with(
            logical.Filter(
                (self._plan,), expr, requested(None, compute, concurrency, options, ray_remote_args_fn)
            )
        )

    def map_batches(
        self,
        fn: Callable[..., Any] | type,
        *,
        batch_size: int | str | None = None,
        compute: ComputeStrategy | None = None,
        batch_format: str | None = "default",
        zero_copy_batch: bool = True,
        fn_args: Iterable[Any] | None = None,
        fn_kwargs: dict[str, Any] | None = None,
        fn_constructor_args: Iterable[Any] | None = None,
        fn_constructor_kwargs: dict[str, Any] | None = None,
        num_cpus: float | None = None,
        num_gpus: float | None = None,
        memory: float | None = None,
        concurrency: Any = None,
        udf_modifying_row_count: bool = True,
        label_selector: dict[str, str] | None = None,
        fallback_strategy: list[dict[str, Any]] | None = None,
        max_calls: int | None = None,
        resources: dict[str, float] | None = None,
        accelerator_type: str | None = None,
        runtime_env: dict[str, Any] | None = None,
        ray_remote_args_fn: Callable[[], dict[str, Any]] | None = None,
        **ray_remote_args: Any,
    ) -> Dataset:
        """Apply a function to each batch; it returns a batch or yields several.

        Args:
            fn: takes a batch and returns one (dict of arrays, DataFrame or Table), or is a generator or coroutine
                function. A class is constructed once in each actor of a pool.
            batch_size: rows per batch, the last one may have fewer; None or "auto" for whole blocks, of any number of
                rows.
            batch_format: "default" or "numpy" for a dict of arrays, "pandas", "pyarrow", None for the unconverted
                block.
            zero_copy_batch: True if arrays may be read-only views of the block; False for writable copies.
            udf_modifying_row_count: False if the function keeps the number of rows, so that limits and counts can rely
                on it.

        Other arguments as for `map`. Raises ValueError for an unknown format and for GPUs without a batch size.
        """
        given = locals()
        size = _checked_batches(batch_size, batch_format, num_gpus)
        batch_format = knowledge.native_format(self._plan) if batch_format is None else batch_format
        udf, requested_compute = _udf_and_compute(given)
        return self._with(
            logical.MapBatches(
                (self._plan,),
                udf,
                size,
                batch_format,
                zero_copy_batch,
                not udf_modifying_row_count,
                requested_compute,
            )
        )

    def _mapped(self, kind: str, given: dict[str, Any]) -> Dataset:
        udf, compute = _udf_and_compute(given)
        return self._with(logical.MapRows((self._plan,), kind, udf, compute))

    # -- fewer rows, other orders

    def limit(self, limit: int) -> Dataset:
        """Keep the first `limit` rows."""
        if isinstance(limit, bool) or not hasattr(limit, "__index__"):
            raise TypeError(f"limit must be a number of rows, got {limit!r}")
        return self._with(logical.Limit((self._plan,), max(0, limit.__index__())))

    def random_sample(self, fraction: float, *, seed: int | RandomSeedConfig | None = None) -> Dataset:
        """Keep each row with probability `fraction`. Raises ValueError unless 0 <= fraction <= 1."""
        if not 0 <= fraction <= 1:
            raise ValueError(f"Fraction must be between 0 and 1, got {fraction}")
        if knowledge.is_bare(self._plan):
            raise ValueError("Cannot sample from an empty Dataset.")
        return self._with(logical.Sample((self._plan,), fraction, Seeds(seed)))

    def randomize_block_order(self, *, seed: int | RandomSeedConfig | None = None) -> Dataset:
        """Put the blocks into random order and leave the rows within them. Cheaper than `random_shuffle`, and
        less random."""
        return self._with(logical.RandomizeBlockOrder((self._plan,), Seeds(seed)))

    # -- several datasets

    def union(self, *other: Dataset) -> Dataset:
        """Concatenate the rows of this dataset and the others."""
        return self._with(logical.Union((self._plan, *_plans("union", other))))

    def zip(self, *other: Dataset) -> Dataset:
        """Combine the columns of this and the other datasets, row by row; a duplicate name gets "_1", "_2", ...

        Raises ValueError when it runs, unless all have the same number of rows.
        """
        if not other:
            return self._with(self._plan)
        return self._with(logical.Zip((self._plan, *_plans("zip", other))))

    def mix(
        self,
        *other: Dataset,
        weights: Sequence[float] | None = None,
        stopping_condition: Any = None,
    ) -> Dataset:
        """Alternate between blocks of this and the other datasets, so that rows come in proportion to `weights`.

        Args:
            weights: one number above 0 for each dataset, this one first; None for equal weights.
            stopping_condition: a MixStoppingCondition: stop with the shortest dataset, or continue with those
                that have rows left.
        """
        plans = (self._plan, *_plans("mix", other))
        numbers = tuple(weights) if weights is not None else (1.0,) * len(plans)
        if len(numbers) != len(plans):
            raise ValueError(
                f"Number of datasets ({len(plans)}) must match number of weights ({len(numbers)}): give one for each"
            )
        if any(number <= 0 for number in numbers):
            raise ValueError(f"Weights must be positive. Got weights: {list(numbers)}")
        shortest = getattr(stopping_condition, "value", stopping_condition) == "stop_on_shortest"
        return self._with(logical.Mix(plans, numbers, shortest))


def checked_batch_size(size: Any) -> int | None:
    """Validate a number of rows, or None. Raises ValueError for numbers below 1, TypeError for other types."""
    if size is None:
        return None
    if isinstance(size, bool) or not hasattr(size, "__index__"):
        raise TypeError(f"batch_size must be a number of rows or None, got {size!r}")
    if size.__index__() < 1:
        raise ValueError(f"Batch size can't be negative or 0, got {size}; use None for whole blocks")
    number: int = size.__index__()
    return number


def _checked_batches(size: Any, batch_format: Any, num_gpus: float | None) -> int | None:
    """Return the rows per batch, None for blocks. Raises ValueError for an impossible size, and for GPUs
    without a batch size."""
    if batch_format not in _FORMATS:
        raise ValueError(
            f"The given batch format {batch_format} isn't allowed: batch_format must be one of {', '.join(map(repr, _FORMATS))}"
        )
    if batch_format == "cudf":
        raise ValueError("batch_format='cudf' needs GPU data frames, which are not supported; use 'pyarrow'")
    rows = checked_batch_size(None if size in ("auto", "default") else size)
    if rows is None and num_gpus:
        raise ValueError(
            f"You must provide `batch_size` to `map_batches` when requesting GPUs (num_gpus={num_gpus:g}); "
            "choose as many rows as fit in the GPU's memory"
        )
    return rows


def _plans(word: str, others: Sequence[Any]) -> list[logical.Operator]:
    for each in others:
        if not isinstance(each, DatasetBase):
            raise TypeError(f"{word} takes datasets, got a {type(each).__name__}: {each!r:.80}")
    return [each._plan for each in others]


def _remote_args(given: dict[str, Any]) -> dict[str, Any]:
    known = {name: given[name] for name in _OPTIONS}
    return {**known, **given["ray_remote_args"]}


def _udf_and_compute(given: dict[str, Any]) -> tuple[Udf, Any]:
    """Return the function and how it runs, from the arguments of an operation. Raises as `requested` does."""
    fn = given["fn"]
    if not callable(fn):
        raise ValueError(
            f"fn must be a UserDefinedFunction, but got {type(fn).__name__} instead: pass a function "
            f"or a class with __call__, got {fn!r:.80}"
        )
    constructor_args = tuple(given["fn_constructor_args"] or ())
    constructor_kwargs = dict(given["fn_constructor_kwargs"] or {})
    if isinstance(fn, type):
        if not any("__call__" in vars(each) for each in fn.__mro__):
            raise ValueError(f"{fn.__name__} has no __call__; define one that takes a row or a batch")
    elif constructor_args or constructor_kwargs:
        raise ValueError(
            f"``fn_constructor_{'args' if constructor_args else 'kwargs'}`` can only be specified if providing "
            "a callable class, "
            f"but fn is the function {fn}; use fn_args and fn_kwargs"
        )
    udf = Udf(fn, tuple(given["fn_args"] or ()), given["fn_kwargs"], constructor_args, constructor_kwargs)
    compute = requested(
        fn, given["compute"], given["concurrency"], _remote_args(given), given["ray_remote_args_fn"]
    )
    several = max(compute.calls_per_actor, compute.remote_args.get("max_concurrency", 1)) > 1
    udf.alone = several and udf.is_class and not udf.is_async and not compute.many_threads
    return udf, compute

"""The logger of values: nested keys, a way of reducing for each, shipped from runners and learners to the root."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any

from skate.rllib.utils.metrics.states import state_of, statistic_of
from skate.rllib.utils.metrics.statistics import KINDS, Series, Statistic

Key = str | tuple[str, ...]

#: Joins the parts of a key in the state.
SEPARATOR = "--"


def parts(key: Key | None) -> tuple[str, ...]:
    """Return a key as a tuple."""
    if key is None:
        return ()
    return (key,) if isinstance(key, str) else tuple(key)


class Timer:
    """Logs the seconds between its start and its end; a context manager that may be entered many times, also nested."""

    def __init__(self, statistic: Statistic) -> None:
        self._statistic = statistic
        self._starts: list[float] = []

    def __enter__(self) -> Timer:
        self._starts.append(time.perf_counter())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._statistic.push(time.perf_counter() - self._starts.pop())


class MetricsLogger:
    """Keeps logged values by nested key and reduces each in its own way.

    Args:
        root: True for the logger of an algorithm, where the values of runners and learners meet; windows then span
            rounds, and lifetime sums never begin again.
    """

    def __init__(
        self, root: bool = False, stats_cls_lookup: Mapping[str, type[Statistic]] | None = None
    ) -> None:
        self.stats: dict[str, Any] = {}
        self._root = root
        self._kinds = {**KINDS, **(stats_cls_lookup or {})}

    def __contains__(self, key: Key) -> bool:
        return self._find(parts(key)) is not None

    def __repr__(self) -> str:
        return f"MetricsLogger({', '.join('/'.join(path) for path, _ in walk(self.stats))})"

    def log_value(
        self,
        key: Key,
        value: Any,
        *,
        reduce: str | None = None,
        window: int | float | None = None,
        ema_coeff: float | None = None,
        percentiles: list[float] | bool | None = None,
        with_throughput: bool | None = None,
        **settings: Any,
    ) -> None:
        """Log one value.

        Args:
            key: Name, or names from the outermost dict inwards.
            value: A number, an array or a tensor of one element; anything with ``reduce="item"``.
            reduce: ``"mean"``, ``"ema"``, ``"min"``, ``"max"``, ``"sum"``, ``"lifetime_sum"``, ``"item"``,
                ``"item_series"`` or ``"percentiles"``. Default ``"ema"``, or ``"mean"`` if ``window`` is given.
                The first call for a key decides.
            window: Number of newest values that count. Default: all of a round.
            ema_coeff: Weight of a new value for ``"ema"``. Default 0.01.
            percentiles: Numbers from 0 to 100 for ``"percentiles"``.
            with_throughput: True to keep the sum per second, for ``"sum"`` and ``"lifetime_sum"``.
            settings: Arguments of a statistic of your own, or ``clear_on_reduce=False`` for a sum over all rounds.

        Raises:
            ValueError: An unknown way to reduce, or a setting that does not go with it.
        """
        statistic = self._find(key if type(key) is tuple else parts(key))
        if statistic is None or type(statistic) is dict:
            given = {
                "window": window,
                "ema_coeff": ema_coeff,
                "percentiles": percentiles,
                "with_throughput": with_throughput,
            }
            statistic = self._open(parts(key), reduce, {**given, **settings})
        statistic.push(value)

    def log_values(self, key: Key, values: Sequence[Any], **settings: Any) -> None:
        """Log several values at once.

        Args:
            key: See `log_value`.
            values: Values, oldest first.
            settings: See `log_value`.
        """
        if values:
            self.log_value(key, values[0], **settings)
            self._find(parts(key)).extend(values[1:])

    def log_dict(
        self, value_dict: Mapping[str, Any], *, key: Key | None = None, reduce: str = "mean", **settings: Any
    ) -> None:
        """Log each value of a nested dict in the same way.

        Args:
            value_dict: Values by nested key.
            key: Key to log under; the top if None.
            reduce: See `log_value`; default ``"mean"``.
            settings: See `log_value`.
        """
        for path, value in walk(value_dict):
            self.log_value(parts(key) + path, value, reduce=reduce, **settings)

    def log_time(self, key: Key, *, reduce: str = "ema", **settings: Any) -> Timer:
        """Return a context manager that logs the seconds spent in its block.

        Args:
            key: Key of the seconds.
            reduce: See `log_value`; default ``"ema"``.
            settings: See `log_value`.
        """
        statistic = self._find(key if type(key) is tuple else parts(key))
        if statistic is None or type(statistic) is dict:
            statistic = self._open(parts(key), reduce, settings)
        return Timer(statistic)

    def aggregate(self, stats_dicts: Iterable[Mapping[str, Any]], *, key: Key | None = None) -> None:
        """Merge what other loggers' `reduce` returned, in the given order.

        Args:
            stats_dicts: Nested dicts of statistics; plain numbers count as means.
            key: Key to merge under; the top if None.
        """
        arrived = list(stats_dicts)
        for part in reversed(parts(key)):
            arrived = [{part: each} for each in arrived]
        self._merge(self.stats, arrived, ())

    def absorb(self, other: MetricsLogger, *, key: Key | None = None) -> None:
        """Do what `aggregate([other.reduce()], key=key)` does, without a copy of each statistic in between.

        Args:
            other: A logger that is not a root.
            key: Key to merge under; the top if None.
        """
        path = parts(key)
        place = self._find(path)
        if type(place) is dict:
            self._absorb(place, other.stats, path)
        else:
            self.aggregate([other.reduce()], key=key)

    def _absorb(self, place: dict[str, Any], given: Mapping[str, Any], path: tuple[str, ...]) -> None:
        for name, each in given.items():
            if isinstance(each, Series) and not each.values:
                continue  # nothing new
            own = place.get(name)
            if type(each) is dict and type(own) is dict:
                self._absorb(own, each, (*path, name))
            elif isinstance(own, Statistic) and isinstance(each, Statistic):
                own.is_merged = True
                own.absorb(each)
            else:  # the first time
                self._merge(place, [shipped({name: each}), {}], path)

    def _merge(self, place: dict[str, Any], arrived: list[Mapping[str, Any]], path: tuple[str, ...]) -> None:
        """Merge nested dicts of statistics into the dict under a key."""
        if len(arrived) == 1:
            self._merge_one(place, arrived[0], path)
            return
        for name in dict.fromkeys(name for each in arrived for name in each):
            found = [each[name] for each in arrived if name in each]
            own = place.get(name)
            if type(found[0]) is dict or isinstance(found[0], Mapping):
                if own is None:
                    own = place[name] = {}
                elif type(own) is not dict:
                    self._put((*path, name, ""), own)  # raises: there cannot be both
                self._merge(own, found, (*path, name))
                continue
            statistics = [each if isinstance(each, Statistic) else self._single(each) for each in found]
            if own is None or type(own) is dict:
                own = self._put((*path, name), statistics[0].like(root=self._root))
            own.is_merged = True
            own.merge(statistics)

    def _merge_one(self, place: dict[str, Any], arrived: Mapping[str, Any], path: tuple[str, ...]) -> None:
        """Do as `_merge` of a single dict, the usual case, in less than half of its time."""
        for name, each in arrived.items():
            own = place.get(name)
            if isinstance(each, Statistic):
                if own is None or type(own) is dict:
                    own = self._put((*path, name), each.like(root=self._root))
                own.is_merged = True
                own.merge((each,))
            elif type(each) is dict and type(own) is dict:
                self._merge_one(own, each, (*path, name))
            else:
                # Several dicts, one of them empty, go the general way.
                self._merge(place, [{name: each}, {}], path)

    def _single(self, value: Any) -> Statistic:
        made = self._kinds["mean" if isinstance(value, int | float) else "item"](root=False)
        made.push(value)
        return made

    def peek(
        self, key: Key | None = None, default: Any = None, compile: bool = True, throughput: bool = False
    ) -> Any:
        """Return the value under a key as of now; nothing is forgotten.

        Args:
            key: A key of a value, or of a dict of values; all if None.
            default: Returned if there is no such key.
            compile: False for a list that holds the value.
            throughput: True for sums per second in the place of values.

        Raises:
            KeyError: No such key, and no default.
        """
        found = self._find(parts(key))
        if found is None or (type(found) is dict and not found and key is not None):
            if default is not None:
                return default
            known = sorted("/".join(path) for path, _ in walk(self.stats))
            raise KeyError(f"no value was logged under {key!r}; there are {known}")

        def read(statistic: Any) -> Any:
            value = statistic.throughput if throughput else statistic.peek()
            return value if compile else [value]

        if isinstance(found, Statistic):
            return read(found)
        chosen = {
            path: each
            for path, each in walk(found)
            if not throughput or getattr(each, "with_throughput", False)
        }
        return nested((path, read(each)) for path, each in chosen.items())

    @staticmethod
    def peek_results(results: Any, compile: bool = True) -> Any:
        """Return a nested dict with each statistic replaced by its value."""
        if isinstance(results, Mapping):
            return {key: MetricsLogger.peek_results(value, compile) for key, value in results.items()}
        if isinstance(results, Statistic):
            return results.peek() if compile else [results.peek()]
        return results

    def reduce(self, compile: bool = False) -> dict[str, Any]:
        """Return what was logged in this round, and begin the next.

        Args:
            compile: True for values, without keys that have none; False for statistics that `aggregate` merges.
        """
        if not compile:
            return shipped(self.stats)
        return nested([(path, each.reduce()) for path, each in walk(self.stats) if not each.is_empty])

    def compile(self) -> dict[str, Any]:
        """Return values as `reduce(compile=True)` does, and sums per second under their keys with ``_throughput``."""
        rates = [
            ((*path[:-1], f"{path[-1]}_throughput"), each.throughput)
            for path, each in walk(self.stats)
            if getattr(each, "with_throughput", False)
        ]
        values = [(path, each.reduce()) for path, each in walk(self.stats) if not each.is_empty]
        alone = [
            (path, value[0] if isinstance(value, list) and len(value) == 1 else value)
            for path, value in values
        ]
        return nested([*alone, *rates])

    def reset(self) -> None:
        """Forget everything."""
        self.stats = {}

    def begin_windows(self, key: Key) -> None:
        """Let what is merged next under a key be all that the windows there are of.

        Args:
            key: Key of statistics, or of a dict of them.
        """
        place = self._find(parts(key))
        for _, each in walk(place) if isinstance(place, dict) else ():
            if isinstance(each, Series):
                each.values.clear()

    def delete(self, *key: str, key_error: bool = True) -> None:
        """Forget what is under a key.

        Args:
            key: Names from the outermost dict inwards.
            key_error: True to raise KeyError if there is no such key.
        """
        place = self._find(key[:-1])
        if isinstance(place, dict) and key[-1] in place:
            del place[key[-1]]
        elif key_error:
            raise KeyError(f"no value was logged under {key!r}")

    def get_state(self) -> dict[str, Any]:
        """Return everything as a picklable dict."""
        return {"stats": {SEPARATOR.join(path): state_of(each) for path, each in walk(self.stats)}}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Replace everything by what `get_state` returned elsewhere."""
        self.stats = {}
        for joined, each in state["stats"].items():
            self._put(tuple(joined.split(SEPARATOR)), statistic_of(each))

    def _find(self, path: tuple[str, ...]) -> Any:
        place: Any = self.stats
        for part in path:
            if type(place) is not dict or part not in place:
                return None
            place = place[part]
        return place

    def _put(self, path: tuple[str, ...], statistic: Statistic) -> Statistic:
        place = self.stats
        for part in path[:-1]:
            inner = place.setdefault(part, {})
            if not isinstance(inner, dict):
                raise KeyError(f"{path!r} cannot be logged: a value is logged under its part {part!r}")
            place = inner
        if isinstance(place.get(path[-1]), dict):
            raise KeyError(f"{path!r} cannot be logged: values are logged under keys inside it")
        place[path[-1]] = statistic
        return statistic

    def _open(self, path: tuple[str, ...], reduce: str | None, settings: Mapping[str, Any]) -> Statistic:
        given = {name: value for name, value in settings.items() if value is not None}
        if reduce is None:
            reduce = "mean" if "window" in given else "ema"
        if given.pop("clear_on_reduce", True) is False and reduce == "sum":
            reduce = "lifetime_sum"
        if reduce not in self._kinds:
            raise ValueError(f"reduce={reduce!r} is not known; choose one of {sorted(self._kinds)}")
        try:
            return self._put(path, self._kinds[reduce](**given, root=self._root))
        except TypeError as error:
            raise ValueError(
                f"{'/'.join(path)}: reduce={reduce!r} does not take {sorted(given)}: {error}"
            ) from None


def walk(tree: Mapping[str, Any], path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    """Return the leaves of a nested dict with their keys, in order."""
    leaves: list[tuple[tuple[str, ...], Any]] = []
    for key, value in tree.items():
        # First the checks that take the least, since nearly all values are one of the two.
        if type(value) is dict or (not isinstance(value, Statistic) and isinstance(value, Mapping)):
            leaves += walk(value, (*path, key))
        else:
            leaves.append(((*path, key), value))
    return leaves


def shipped(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return a nested dict with what each statistic has for the root; those that have nothing new are left out."""
    made: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Series):
            if value.values:
                made[key] = value.ship()
        elif isinstance(value, Statistic):
            made[key] = value.ship()
        elif inner := shipped(value):
            made[key] = inner
    return made


def nested(leaves: Iterable[tuple[tuple[str, ...], Any]]) -> dict[str, Any]:
    """Return the nested dict that has the given leaves."""
    tree: dict[str, Any] = {}
    for path, value in leaves:
        place = tree
        for part in path[:-1]:
            place = place.setdefault(part, {})
        place[path[-1]] = value
    return tree

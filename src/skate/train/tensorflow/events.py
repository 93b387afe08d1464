"""Selection of the Keras events and metrics to report. Does not need Keras."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

_OF = ("epoch", "train_batch", "test_batch", "predict_batch", "train", "test", "predict")
#: All events, named like the methods of a callback without "on_".
EVENTS = tuple(f"{what}_{when}" for what in _OF for when in ("begin", "end"))


class Events:
    """Implements the methods of a Keras callback; each calls `_happened` if its event was requested.

    Raises:
        ValueError: there is no such event.
    """

    def __init__(
        self,
        checkpoint_on: str | Sequence[str],
        report_metrics_on: str | Sequence[str],
        metrics: str | Sequence[str] | Mapping[str, str] | None,
    ) -> None:
        super().__init__()
        self._checkpoint_on = _checked("checkpoint_on", checkpoint_on)
        self._wanted = {*self._checkpoint_on, *_checked("report_metrics_on", report_metrics_on)}
        if metrics is None or isinstance(metrics, Mapping):
            self._metrics = metrics
        else:
            self._metrics = {name: name for name in ([metrics] if isinstance(metrics, str) else metrics)}

    def _happened(self, event: str, logs: Mapping[str, Any] | None) -> None:
        raise NotImplementedError

    def _chosen(self, logs: Mapping[str, Any]) -> dict[str, Any]:
        if self._metrics is None:
            return dict(logs)
        lost = [name for name in self._metrics.values() if name not in logs]
        if lost:
            logged = ", ".join(logs) or "none"
            raise KeyError(f"Keras has not logged {', '.join(map(repr, lost))}; it has logged: {logged}")
        return {new: logs[name] for new, name in self._metrics.items()}


def _checked(name: str, events: str | Sequence[str]) -> tuple[str, ...]:
    found = (events,) if isinstance(events, str) else tuple(events)
    for each in found:
        if each not in EVENTS:
            raise ValueError(
                f"{name} must contain events of Keras, got {each!r}; the events are: {', '.join(EVENTS)}"
            )
    return found


def _method(event: str) -> Callable[..., None]:
    def called(self: Events, *given: Any, logs: Mapping[str, Any] | None = None) -> None:
        # Keras calls on_epoch_end(3, {...}) and on_train_end({...}), with None if nothing was logged.
        last = logs if logs is not None or not given else given[-1]
        if event in self._wanted:
            self._happened(event, last if isinstance(last, Mapping) else None)

    called.__name__ = f"on_{event}"
    return called


for _event in EVENTS:
    setattr(Events, f"on_{_event}", _method(_event))

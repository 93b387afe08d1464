"""Chooses the replica of each request of one deployment, in the process that makes the requests.

A request goes to the less busy of two random replicas; their load is read from their boards, so that it is
correct even if several processes send requests. A stopped replica gets none while another one exists. When all
are full, requests wait here, in order, up to `max_queued_requests`.
"""

from __future__ import annotations

import dataclasses
import random
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import skate
from skate.serve.exceptions import (
    BackPressureError,
    DeploymentUnavailableError,
    RayServeException,
    RequestCancelledError,
)
from skate.serve.identity import DeploymentID
from skate.serve.routing.board import View
from skate.serve.routing.call import Call
from skate.serve.routing.table import Key, Line, Place

#: While others fill the replicas, how often a router looks whether there is room; seconds.
_LOOK_SECONDS = 0.003
_LOOK_SECONDS_MAX = 0.05
#: And how often the controller is told what waits.
_TELL_SECONDS = 0.1


class Target:
    """A replica, as one router sees it."""

    __slots__ = ("place", "view", "inflight", "call", "stream", "models", "dead")

    def __init__(self, place: Place, own_node: str) -> None:
        self.place = place
        self.view = View(place.pid, place.fd, place.node, own_node)
        self.inflight = 0
        self.call = place.actor.call
        self.stream = place.actor.stream
        self.models = set(place.models)
        #: A request came back since its process has ended; the controller may not know yet.
        self.dead = False

    def load(self) -> int:
        """Requests that it has, as far as can be seen from here."""
        seen = self.view.load()
        return seen if seen > self.inflight else self.inflight


class Router:
    """The way to the replicas of a deployment."""

    #: Makes the answer of a call, where that is not one from another process.
    answers: Any = None

    def __init__(self, key: Key, own_node: str) -> None:
        self.key = key
        self.line: Line | None = None
        self.gone = False
        self.waiting: deque[Call] = deque()
        self._targets: dict[str, Target] = {}
        self._ready: list[Target] = []
        self._own_node = own_node
        self._lock = threading.Lock()
        self._custom: Any = None

    # -- what the controller says

    def update(self, line: Line | None) -> None:
        """Update the replicas; None if the deployment no longer exists."""
        with self._lock:
            self.line = line
            self.gone = line is None
            places = {} if line is None else {place.replica: place for place in line.places}
            for name in [name for name in self._targets if name not in places]:
                self._targets.pop(name).view.close()
            for name, place in places.items():
                known = self._targets.get(name)
                if known is None:
                    self._targets[name] = Target(place, self._own_node)
                else:
                    known.place = place
                    known.models |= set(place.models)
            self._ready = [each for each in self._targets.values() if not each.dead]
            if line is not None and line.router is not None:
                self._custom = self._make_custom(line.router)
            lost = list(self.waiting) if line is None or line.failed else []
            if lost:
                self.waiting.clear()
        for call in lost:
            call.settle(None, self._unavailable())
        self.send_waiting()

    def _make_custom(self, config: Any) -> Any:
        if self._custom is None:
            from skate.serve.routing.custom_router import (
                CustomChoice,  # only deployments that bring a router of their own
            )

            self._custom = CustomChoice(config, self.key, self._own_node)
        assert self.line is not None
        self._custom.update(self._ready, self.line.max_ongoing)
        return self._custom

    def _unavailable(self) -> BaseException:
        app, name = self.key
        return DeploymentUnavailableError(DeploymentID(name, app))

    @property
    def populated(self) -> bool:
        """True once it knows a replica."""
        return bool(self._ready)

    # -- requests

    def submit(self, call: Call, again: bool = False) -> None:
        """Send a request to a replica, or queue it; errors are passed to the call.

        One that comes `again` was accepted before: it goes first, and is not rejected.
        """
        line = self.line
        if line is None or line.failed:
            if self.gone or line is not None:
                call.settle(None, self._unavailable())
                return
            target = None
        elif self.waiting:
            target = None
        else:
            try:
                target = self._choose(call, line)
            except Exception as error:  # a router of the user's may raise anything; its caller is told
                call.settle(None, error)
                return
        if target is not None:
            self._send(target, call)
            return
        with self._lock:
            if again:
                self.waiting.appendleft(call)
                waiting = -1
            elif line is not None and 0 <= line.max_queued <= len(self.waiting):
                waiting = len(self.waiting)
            else:
                self.waiting.append(call)
                waiting = -1
        if waiting >= 0:
            assert line is not None
            call.settle(
                None, BackPressureError(waiting, line.max_queued, line.status_code, line.retry_after_s)
            )
            return
        looker.watch(self)
        if self._ready:
            self.send_waiting()

    def withdraw(self, call: Call) -> None:
        """Cancel a request wherever it is."""
        call.cancelled = True
        with self._lock:
            try:
                self.waiting.remove(call)
            except ValueError:  # it is on its way
                found = False
            else:
                found = True
        if found:
            call.settle(None, RequestCancelledError(call.meta[0]))

    def send_waiting(self) -> None:
        """Send what waits, as far as there is room."""
        while self.waiting:
            with self._lock:
                line = self.line
                if not self.waiting or line is None:
                    return
                call = self.waiting[0]
                wrong = target = None
                try:
                    target = self._choose(call, line)
                except Exception as error:  # as above
                    wrong = error
                if wrong is not None:
                    self.waiting.popleft()
                    call.settle(None, wrong)
                    continue
                if target is None:
                    return
                self.waiting.popleft()
                target.inflight += 1
            self._send(target, call, counted=True)

    def join_queue(self) -> None:
        """Send the first waiting request to a replica at which others wait already, and none from here; it has its turn there.

        Otherwise clients over HTTP, who wait at the replica itself, could take each place that becomes free.
        """
        with self._lock:
            line = self.line
            if not self.waiting or line is None:
                return
            call = self.waiting[0]
            try:
                target = self._choose(call, dataclasses.replace(line, max_ongoing=sys.maxsize))
            except Exception:  # of a router of the user's; `send_waiting` tells the caller
                return
            if target is None or target.inflight or not target.view.waiting():
                return
            self.waiting.popleft()
            target.inflight += 1
        self._send(target, call, counted=True)

    def _choose(self, call: Call, line: Line) -> Target | None:
        ready = self._ready
        count = len(ready)
        limit = line.max_ongoing
        if self._custom is not None:
            target: Target | None = self._custom.choose(call, limit)
            return target
        model = call.meta[4]
        if model:
            holding = [each for each in ready if model in each.models and not each.view.stopped()]
            best = min(holding, key=Target.load, default=None)
            if best is not None and best.load() < limit:
                return best
        if count == 1:
            return ready[0] if ready[0].load() < limit else None
        if not count:
            return None
        drawn = random.randrange(count)
        first = ready[drawn]
        second = ready[drawn - 1 - random.randrange(count - 1)]
        if second.load() < first.load():
            first = second
        if first.load() < limit and not first.view.stopped():
            return first
        best = min(ready, key=Target.load)
        if best.view.stopped():  # its load stays low, as it takes nothing in
            best = min((each for each in ready if not each.view.stopped()), key=Target.load, default=best)
        return best if best.load() < limit else None

    def _send(self, target: Target, call: Call, counted: bool = False) -> None:
        if not counted:
            target.inflight += 1
        meta = call.meta
        if meta[4]:
            target.models.add(meta[4])
        custom = self._custom
        try:
            if custom is not None:
                custom.sending(target)
            if call.stream:
                ref = target.stream.remote(meta, *call.args, **call.kwargs)
                whole = ref.completed()
            else:
                whole = ref = target.call.remote(meta, *call.args, **call.kwargs)
        # Arguments that cannot be packed, a session that has ended: the caller is told.
        except Exception as error:
            target.inflight -= 1
            call.settle(None, self._unsendable(call, error))
            return
        whole._site = call.site

        def done() -> None:
            target.inflight -= 1
            failure = whole._failure()
            if failure is not None and self._died_early(failure, target) and self.renew(call, ref):
                whole._forgive()
                return
            call.over = True
            call.forget()
            if custom is not None:
                custom.completed(call, target)
            if call.span is not None:
                call.end_span()
            if self.waiting:
                self.send_waiting()

        if custom is not None:
            custom.sent(call, target, ref)
        whole._on_ready(done)
        call.settle(ref, None)
        if call.cancelled:
            stop(ref)

    def _unsendable(self, call: Call, error: Exception) -> Exception:
        """Rephrase the error of an argument that cannot be pickled, with the caller's names."""
        import cloudpickle  # 15 ms, for errors alone

        said: list[tuple[Any, Any]] = [*enumerate(call.args, 1), *call.kwargs.items()]
        for name, value in said:
            try:
                cloudpickle.dumps(value)
            except RayServeException as wrong:  # which says itself what may be passed
                return wrong
            except Exception as wrong:  # whatever its pickling raises
                what = f"argument {name}" if isinstance(name, int) else f"argument {name!r}"
                return TypeError(
                    f"{what} of {self.key[1]}.{call.meta[1]} cannot be sent to a replica: {type(wrong).__name__}: {wrong}. "
                    "Create it inside the replica, or send its parts"
                )
        return error

    def _died_early(self, failure: tuple[str, dict[str, Any]], target: Target) -> bool:
        """True if the replica ended before it started a request; a replica that has ended gets no more in any case."""
        name, fields = failure
        if name != "ActorDiedError" or fields.get("actor_id") != target.place.actor._skate_id:
            return False
        if not target.dead:
            target.dead = True
            with self._lock:
                self._ready = [each for each in self._ready if each is not target]
                if self._custom is not None:
                    self._custom.died(target)
        return fields.get("begun") is False

    def renew(self, call: Call, ref: Any) -> bool:
        """Send a request again that no replica has started; False if it was sent already, or was cancelled."""
        if not call.renew(ref):
            return False
        self.submit(call, again=True)
        return True

    def tell(self, model: str, target: Target) -> None:
        """A replica has loaded a model."""
        target.models.add(model)


def stop(ref: Any) -> None:
    """Cancel a replica's work on a response."""
    try:
        if hasattr(ref, "close"):
            ref.close()
        else:
            skate.cancel(ref)
    except Exception:  # the session has ended, and with it the work
        return


class Looker:
    """One thread a process that looks for room while requests wait and other processes fill the replicas."""

    def __init__(self) -> None:
        self._routers: set[Router] = set()
        self._lock = threading.Lock()
        self._running = False
        #: Tells the controller what waits; set by the watch of the process.
        self.tell: Callable[[], None] = lambda: None

    def watch(self, router: Router) -> None:
        """A request waits at this router."""
        with self._lock:
            self._routers.add(router)
            if self._running:
                return
            self._running = True
        threading.Thread(target=self._run, name="skate-serve-looker", daemon=True).start()

    def _run(self) -> None:
        pause = _LOOK_SECONDS
        told = 0.0
        while True:
            time.sleep(pause)
            if time.monotonic() - told > _TELL_SECONDS:
                told = time.monotonic()
                self.tell()
            with self._lock:
                self._routers = {each for each in self._routers if each.waiting}
                routers = list(self._routers)
                if not routers:
                    self._running = False
            if not routers:
                self.tell()
                return
            before = sum(len(each.waiting) for each in routers)
            for each in routers:
                each.send_waiting()
            if sum(len(each.waiting) for each in routers) >= before:
                for each in routers:
                    each.join_queue()
            idle = sum(len(each.waiting) for each in routers) >= before
            pause = min(pause * 2, _LOOK_SECONDS_MAX) if idle else _LOOK_SECONDS


looker = Looker()

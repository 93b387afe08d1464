"""The router of a deployment. It runs in the process that sends the requests, and chooses a replica for each.

A request goes to the less busy of two random replicas. The router reads their load from their counter pages, so it is
correct even if several processes send requests. A stopped replica gets no request while another one exists. If
all replicas are full, up to `max_queued_requests` requests wait here, in order.
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
    RequestNotAcceptedError,
)
from skate.serve.identity import DeploymentID
from skate.serve.routing.call import Call
from skate.serve.routing.counter_page import View
from skate.serve.routing.table import DeploymentEntry, Key, ReplicaEntry

#: The first and the longest pause between checks for room, while other processes fill the replicas; in seconds.
_RETRY_SECONDS = 0.003
_RETRY_SECONDS_MAX = 0.05
#: The interval of reports to the controller about waiting requests, in seconds.
_REPORT_SECONDS = 0.1


class Target:
    """A replica, as one router sees it."""

    __slots__ = ("entry", "view", "inflight", "call", "stream", "models", "dead")

    def __init__(self, entry: ReplicaEntry, own_node: str) -> None:
        self.entry = entry
        self.view = View(entry.pid, entry.fd, entry.node, own_node)
        self.inflight = 0
        self.call = entry.actor.call
        self.stream = entry.actor.stream
        self.models = set(entry.models)
        #: True if a request failed because the replica has ended; the controller may not have noticed yet.
        self.dead = False

    def load(self) -> int:
        """Return the number of the replica's requests, as far as this process can tell."""
        seen = self.view.load()
        return seen if seen > self.inflight else self.inflight


class Router:
    """The router of a deployment's requests."""

    #: Creates the response of a call within the process; None for deployments in other processes.
    answers: Any = None

    def __init__(self, key: Key, own_node: str) -> None:
        self.key = key
        self.deployment: DeploymentEntry | None = None
        self.gone = False
        self.waiting: deque[Call] = deque()
        self._targets: dict[str, Target] = {}
        self._ready: list[Target] = []
        #: Targets of requests in work whose replicas are being ended.
        self._former: list[Target] = []
        self._own_node = own_node
        self._lock = threading.Lock()
        self._custom: Any = None
        self._custom_config: Any = None

    # -- updates by the controller

    def update(self, deployment: DeploymentEntry | None) -> None:
        """Update the replicas; None if the deployment no longer exists."""
        with self._lock:
            self.deployment = deployment
            self.gone = deployment is None
            entries = {} if deployment is None else {entry.replica: entry for entry in deployment.entries}
            for name in [name for name in self._targets if name not in entries]:
                self._former.append(self._targets.pop(name))
            # They stay readable: a thread may be about to send to one of them, and reads there why that failed.
            if deployment is None:
                for former in self._former:
                    former.view.close()
            self._former = [former for former in self._former if former.inflight]
            for name, entry in entries.items():
                known = self._targets.get(name)
                if known is None:
                    self._targets[name] = Target(entry, self._own_node)
                else:
                    known.entry = entry
                    known.models |= set(entry.models)
            self._ready = [each for each in self._targets.values() if not each.dead]
            self._update_custom(None if deployment is None else deployment.router)
            lost = list(self.waiting) if deployment is None or deployment.failed else []
            if lost:
                self.waiting.clear()
        for call in lost:
            call.settle(None, self._unavailable())
        self.send_waiting()

    def _update_custom(self, config: Any) -> None:
        """Keep the custom router while its settings stay the same; replace it by another one, or by none."""
        if config is None:
            self._custom = self._custom_config = None
            return
        if self._custom is None or config != self._custom_config:
            # Imported only for custom routers.
            from skate.serve.routing.custom_router import CustomChoice

            self._custom = CustomChoice(config, self.key, self._own_node, retry_thread.wake)
            self._custom_config = config
        assert self.deployment is not None
        self._custom.update(self._ready, self.deployment.max_ongoing)

    def _unavailable(self) -> BaseException:
        app, name = self.key
        return DeploymentUnavailableError(DeploymentID(name, app))

    @property
    def populated(self) -> bool:
        """True if there is a replica."""
        return bool(self._ready)

    # -- requests

    def submit(self, call: Call, again: bool = False) -> None:
        """Send a request to a replica, or queue it. Errors settle the call.

        A request that is sent `again` was accepted before, so it is queued first and never rejected.
        """
        deployment = self.deployment
        if deployment is None or deployment.failed:
            if self.gone or deployment is not None:
                call.settle(None, self._unavailable())
                return
            target = None
        elif self.waiting:
            target = None
        else:
            try:
                target = self._choose(call, deployment)
            except Exception as error:  # a custom router may raise anything; the caller receives it
                call.settle(None, error)
                return
        if target is not None:
            self._send(target, call)
            return
        with self._lock:
            if again:
                self.waiting.appendleft(call)
                waiting = -1
            elif deployment is not None and 0 <= deployment.max_queued <= len(self.waiting):
                waiting = len(self.waiting)
            else:
                self.waiting.append(call)
                waiting = -1
        if waiting >= 0:
            assert deployment is not None
            call.settle(
                None,
                BackPressureError(
                    waiting, deployment.max_queued, deployment.status_code, deployment.retry_after_s
                ),
            )
            return
        retry_thread.watch(self)
        if self._ready:
            self.send_waiting()

    def withdraw(self, call: Call) -> None:
        """Cancel a request, whether it is waiting or was sent."""
        call.cancelled = True
        with self._lock:
            try:
                self.waiting.remove(call)
            except ValueError:  # it was already sent
                found = False
            else:
                found = True
        if found:
            if self._custom is not None:
                self._custom.cancelled(call)
            call.settle(None, RequestCancelledError(call.meta[0]))

    def send_waiting(self) -> None:
        """Send waiting requests while there is room."""
        while self.waiting:
            with self._lock:
                deployment = self.deployment
                if not self.waiting or deployment is None:
                    return
                call = self.waiting[0]
                wrong = target = None
                try:
                    target = self._choose(call, deployment)
                except Exception as error:  # a custom router may raise anything; the caller receives it
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
        """Send the first waiting request to a full replica's own queue, if none from this process waits there
        yet.

        Otherwise clients over HTTP, which wait at the replica itself, could take each place that becomes
        free.
        """
        with self._lock:
            deployment = self.deployment
            if not self.waiting or deployment is None:
                return
            call = self.waiting[0]
            try:
                target = self._choose(call, dataclasses.replace(deployment, max_ongoing=sys.maxsize))
            except Exception:  # raised by a user's router; `send_waiting` passes it to the caller
                return
            if target is None or target.inflight or not target.view.waiting():
                return
            self.waiting.popleft()
            target.inflight += 1
        self._send(target, call, counted=True)

    def _choose(self, call: Call, deployment: DeploymentEntry) -> Target | None:
        ready = self._ready
        count = len(ready)
        limit = deployment.max_ongoing
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
        if first.view.real is second.view.real:
            if second.load() < first.load():
                first = second
        elif (
            second.inflight < first.inflight
        ):  # of a replica on another node, only the requests from here are known
            first = second
        if first.load() < limit and not first.view.stopped():
            return first
        best = min(ready, key=Target.load)
        if best.view.stopped():  # its load stays low, because it accepts nothing
            best = min((each for each in ready if not each.view.stopped()), key=Target.load, default=best)
        return best if best.load() < limit else None

    def _send(self, target: Target, call: Call, counted: bool = False) -> None:
        if not counted:
            target.inflight += 1
        meta = call.meta
        if meta[4]:
            target.models.add(meta[4])
        custom = self._custom
        attempt = call.attempt
        try:
            if custom is not None:
                custom.sending(target)
            if call.stream:
                ref = target.stream.remote(meta, *call.args, **call.kwargs)
                whole = ref.completed()
            else:
                whole = ref = target.call.remote(meta, *call.args, **call.kwargs)
        # Arguments may not be picklable, or the session may have ended; the caller receives the error.
        except Exception as error:
            target.inflight -= 1
            call.settle(None, self._unsendable(call, error))
            return
        whole._site = call.site

        def done() -> None:
            target.inflight -= 1
            failure = ref._stream.failure if call.stream else whole._failure()
            if failure is not None and self._never_began(failure, target) and self.renew(call, attempt):
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
        call.settle(ref, None, attempt)
        if call.cancelled:
            stop(ref)

    def _unsendable(self, call: Call, error: Exception) -> Exception:
        """Return an error that names the argument that cannot be pickled; `error` if there is none."""
        import cloudpickle  # takes 15 ms and is needed only for errors

        arguments: list[tuple[Any, Any]] = [*enumerate(call.args, 1), *call.kwargs.items()]
        for name, value in arguments:
            try:
                cloudpickle.dumps(value)
            except RayServeException as wrong:  # its message already explains what may be passed
                return wrong
            except Exception as wrong:  # pickling may raise anything
                what = f"argument {name}" if isinstance(name, int) else f"argument {name!r}"
                return TypeError(
                    f"{what} of {self.key[1]}.{call.meta[1]} cannot be sent to a replica: {type(wrong).__name__}: {wrong}. "
                    "Create it inside the replica, or send its parts"
                )
        return error

    def _never_began(self, failure: tuple[str, dict[str, Any]], target: Target) -> bool:
        """Return True if the replica refused a request, or ended before it started it. It is then no longer used."""
        name, fields = failure
        actor_id = target.entry.actor._skate_id
        refused = (
            name == "RayTaskError"
            and fields.get("actor") == actor_id.hex()
            and fields["traceback"].rstrip().endswith(str(RequestNotAcceptedError(target.entry.replica)))
        )
        if not refused and (name != "ActorDiedError" or fields.get("actor_id") != actor_id):
            return False
        if not target.dead:
            target.dead = True
            with self._lock:
                self._ready = [each for each in self._ready if each is not target]
                if self._custom is not None:
                    self._custom.died(target)
        return refused or fields.get("begun") is False or target.view.closed()

    def renew(self, call: Call, attempt: int) -> bool:
        """Resend a request that no replica has started; return False if it was already resent or was cancelled."""
        if not call.renew(attempt):
            return False
        self.submit(call, again=True)
        return True


def stop(ref: Any) -> None:
    """Cancel a replica's work on a response."""
    try:
        if hasattr(ref, "close"):
            ref.close()
        else:
            skate.cancel(ref)
    except Exception:  # the session has ended, which also ended the work
        return


class RetryThread:
    """A thread that retries waiting requests while other processes fill the replicas; one for each process."""

    def __init__(self) -> None:
        self._routers: set[Router] = set()
        self._lock = threading.Lock()
        self._running = False
        self._woken = threading.Event()
        #: Reports the waiting requests to the controller; set by the watch of the process.
        self.report: Callable[[], None] = lambda: None

    def watch(self, router: Router) -> None:
        """Retry the waiting requests of a router."""
        with self._lock:
            self._routers.add(router)
            if self._running:
                return
            self._running = True
        threading.Thread(target=self._run, name="skate-serve-retry", daemon=True).start()

    def wake(self) -> None:
        """Retry the waiting requests now, because a custom router can choose for one of them."""
        self._woken.set()

    def _run(self) -> None:
        pause = _RETRY_SECONDS
        reported = 0.0
        while True:
            self._woken.wait(pause)
            self._woken.clear()
            if time.monotonic() - reported > _REPORT_SECONDS:
                reported = time.monotonic()
                self.report()
            with self._lock:
                self._routers = {each for each in self._routers if each.waiting}
                routers = list(self._routers)
                if not routers:
                    self._running = False
            if not routers:
                self.report()
                return
            before = sum(len(each.waiting) for each in routers)
            for each in routers:
                each.send_waiting()
            if sum(len(each.waiting) for each in routers) >= before:
                for each in routers:
                    each.join_queue()
            idle = sum(len(each.waiting) for each in routers) >= before
            pause = min(pause * 2, _RETRY_SECONDS_MAX) if idle else _RETRY_SECONDS


retry_thread = RetryThread()

"""The locations of actors on several nodes, and the handles that keep them alive."""

from __future__ import annotations

from skate.core.node import NodeCore
from skate.protocol import messages as m
from skate.protocol.states import CREATION
from skate.simulation.programs.spec import CPU, Spec

HERE, HEAD = (name.encode().ljust(28, b".") for name in ("here", "head"))
ACTOR = bytes(12) + b"job0"
LIFE = {"actor_name": "", "namespace": "", "max_restarts": 0, "max_task_retries": 0}


def test_a_host_counts_what_the_head_had_been_given_before() -> None:
    """Create an actor in a task that returns its handle to the head, which then places the actor on this node."""
    node = NodeCore({"CPU": CPU}, node_id=HERE)
    head = {"node_id": HEAD, "total": {"CPU": CPU}, "labels": {}, "head": True}
    node.cluster.join(50, head, 0.0)
    node.connect(1, "job", "", True)
    spec = Spec("Actor", request={}, function=b"")
    node.step(1, (m.TEMPLATE, spec.key, spec.fields()), 0.0)
    node.step(1, (m.CREATE_ACTOR, ACTOR, spec.key, b"", (), (), b"", LIFE), 0.0)
    node.objects.grant_any(50, ACTOR)  # as with a result
    creation = (m.FORWARD, CREATION, ACTOR, spec.key, b"", (), (), b"")
    fields = {"job": "job", "namespace": "", "attempt": 0, "retries": 0, "life": {**LIFE, "restarts": 0}}
    node.step(50, (m.TEMPLATE, spec.key, spec.fields()), 0.0)
    node.step(50, (*creation, fields), 0.0)
    node.step(50, (m.FREE, ACTOR, 1), 0.0)  # the handle was deleted there, but other processes have it
    assert node.actors.actors[ACTOR].holders == {1: 1, 50: 1}
    node.step(50, (m.FREE, ACTOR, 1), 0.0)
    assert node.actors.actors[ACTOR].holders == {1: 1}
    node.check()

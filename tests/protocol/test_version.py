"""Another version of the protocol is refused at the door, with both numbers."""

from __future__ import annotations

import socket
import threading
from typing import Any

import msgpack
import pytest

from skate.fabric.local import HeadFabric, MemberFabric, RefusedError
from skate.protocol import messages as m
from skate.protocol.effects import KillWorker
from skate.protocol.version import VERSION, refusal
from skate.wire.channel import Channel
from skate.wire.pump import Pump
from tests.core.rig import Rig

OTHER = VERSION + 1


@pytest.mark.parametrize("theirs", [OTHER, 0, True, "1", None, 1.0])
def test_whatever_is_not_this_version_is_refused(theirs: object) -> None:
    assert "the driver uses" in refusal(theirs, "the driver")


def test_a_refusal_names_both_versions() -> None:
    assert refusal(OTHER, "the driver") == (
        f"the driver uses version {OTHER} of the protocol, but this node uses version {VERSION}; "
        "run the same release of Skate for both"
    )
    assert refusal(VERSION, "the driver") == ""


def test_a_worker_of_another_version_is_ended_and_its_task_says_why() -> None:
    rig = Rig()
    task = rig.submit(retries=0)
    worker = rig.worker_of(task)
    rig.send(worker, m.READY, 77, OTHER)
    assert rig.shell_cids(KillWorker) == [worker]
    rig.lose(worker, 0)
    (error,) = [fields for to, (tag, *fields) in rig.outbox if to == 1 and tag == m.RESULT]
    name, details = error[2]
    assert name == "RaySystemError"
    assert f"version {OTHER} of the protocol, but this node uses version {VERSION}" in details["message"]


def test_a_worker_of_this_version_goes_on() -> None:
    rig = Rig()
    worker = rig.worker_of(rig.submit())
    rig.send(worker, m.READY, 77, VERSION)
    assert rig.shell_cids(KillWorker) == [] and rig.core.scheduler.workers[worker].pid == 77


def test_a_node_of_another_version_is_not_taken_in() -> None:
    pump = Pump(threading.RLock(), "loop")
    head = HeadFabric(pump, {"node_id": bytes(28)}, {})
    theirs = head.invite()
    stranger = Channel(theirs)
    stranger.push((1, 0, 0, OTHER, {"node_id": bytes(28)}))
    stranger.flush()
    answers: list[tuple[Any, ...]] = []
    with pump.lock:
        assert pump.wait(lambda: bool(answers.extend(stranger.read()) or answers), 10.0)
    head.close()
    (answer,) = answers
    assert f"version {OTHER} of the protocol, but this node uses version {VERSION}" in answer[3]
    assert not head.members()
    stranger.close()
    pump.close()


def test_a_node_that_is_refused_says_so() -> None:
    ours, theirs = socket.socketpair()
    ours.sendall(msgpack.packb((10, 0, 0, "another version")))
    member = MemberFabric(Pump(threading.RLock(), "loop"), {"node_id": bytes(28)}, theirs)
    with pytest.raises(RefusedError, match="another version"):
        member.greet()
    ours.close()
    theirs.close()
    member.pump.close()

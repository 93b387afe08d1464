"""The objects that every call uses have no `__dict__`. In CPython, reading an attribute of an object with a dict and 30 or more
attributes takes several times as long."""

from __future__ import annotations

import pytest

from skate.client.process import Process
from skate.node.host import NodeHost
from skate.wire.channel import Channel
from skate.wire.pump import Pump
from skate.worker.executor import Executor


@pytest.mark.parametrize("cls", [Channel, Executor, NodeHost, Process, Pump], ids=lambda cls: cls.__name__)
def test_attributes_of_hot_objects_are_in_slots(cls: type) -> None:
    assert cls.__dictoffset__ == 0, [base.__name__ for base in cls.__mro__ if "__slots__" not in vars(base)]

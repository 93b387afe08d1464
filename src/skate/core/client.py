"""The processes that are connected to a node."""

from __future__ import annotations


class Client:
    """A process connected to this node, or a program on another node."""

    __slots__ = ("cid", "job", "namespace", "is_driver", "calls")

    def __init__(self, cid: int, job: str, namespace: str, is_driver: bool = False) -> None:
        self.cid = cid
        self.job = job
        self.namespace = namespace
        self.is_driver = is_driver
        self.calls = False  # it has called something

"""Operations of a scripted process on placement groups."""

from __future__ import annotations

from typing import Any

from skate.simulation.processes.frame import Frame
from skate.simulation.programs.spec import Spec, Thread


class PlacementOperations:
    """Operations of a process, which is what `self` is."""

    def do_group(self: Any, frame: Frame, parent: bytes, bundles: Any, strategy: str) -> Thread:
        """Create a placement group."""
        self.count += 1
        group_id = b"group" + self.cid.to_bytes(4, "little") + self.count.to_bytes(9, "little")
        frame.groups.append(group_id)
        yield from self.do_request(frame, parent, "create_group", group_id, bundles, {"strategy": strategy})
        return group_id

    def do_ready(self: Any, frame: Frame, parent: bytes, number: int) -> Thread:
        """A ref that is ready when a group is placed."""
        if frame.groups:
            oid = self.next_object_id()
            group_id = frame.groups[number % len(frame.groups)]
            yield from self.do_request(frame, parent, "group_ready", group_id, oid)
            frame.refs.append(self.adopt_any(oid))

    def do_remove_group(self: Any, frame: Frame, parent: bytes, number: int) -> Thread:
        """Remove a placement group."""
        if frame.groups:
            yield from self.do_request(
                frame, parent, "remove_group", frame.groups[number % len(frame.groups)]
            )

    def do_in_group(
        self: Any, frame: Frame, parent: bytes, group: int, index: int, spec: Spec, *rest: Any
    ) -> Thread:
        """Submit a task into a bundle of a group."""
        if frame.groups:
            placed = spec.placed(frame.groups[group % len(frame.groups)], index)
            return (yield from self.do_submit(frame, parent, placed, *rest))
        return None

    def do_create_in_group(
        self: Any, frame: Frame, parent: bytes, group: int, index: int, spec: Spec, life: dict[str, Any]
    ) -> Thread:
        """Start an actor in a bundle of a group."""
        if frame.groups:
            placed = spec.placed(frame.groups[group % len(frame.groups)], index)
            return (yield from self.do_create(frame, parent, placed, life))
        return None

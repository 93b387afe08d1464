"""Lanes between many members: stamps dropped, told too rarely or kept forever, views not awaited, departures before data."""

from __future__ import annotations

from tests.simulation.planted.bug import Bug

ORDER = "skate.fabric.order:Order."
#: One seed in thousands notices; the next row is the same mistake at a place that a test notices at once.
RARE = {"a stamp is removed when its frame is received, not delivered"}

BUGS = tuple(
    Bug(name, where, old, new, (run,), name in RARE)
    for run, name, where, old, new in (
        (
            "borrowed",
            "a HOLD does not bind",
            "skate.simulation.nodes.mesh:Mesh.post",
            "binds=message[0] in self.binding",
            "binds=False",
        ),
        (
            "borrowed",
            "a stamp about the receiver is dropped",
            ORDER + "_stamps_for",
            "found.append((destination, source, note.number, ARRIVED if note.arrived else note.age))",
            "pass",
        ),
        (
            "lanes",
            "a stamp is dropped",
            ORDER + "_stamps_for",
            "found.append((destination, source, note.number, ARRIVED if note.arrived else note.age))",
            "pass",
        ),
        (
            "lanes",
            "a stamp is told to one lane only",
            ORDER + "_stamps_for",
            "if lane.announced == self._index:",
            "if self._announced_max == self._index:",
        ),
        (
            "lanes",
            "a stamp is not passed on by members that it is not about",
            ORDER + "_learn",
            "self._note((destination, source), number, age)",
            "pass",
        ),
        (
            "lanes",
            "a stamp is not removed when its frame has arrived",
            ORDER + "receipted",
            "self._arrived((peer, self.number), delivered)",
            "pass",
        ),
        (
            "lanes",
            "a stamp is removed when its frame is received, not delivered",
            ORDER + "receipted",
            "self._arrived((peer, self.number), delivered)",
            "self._arrived((peer, self.number), received)",
        ),
        (
            "case",
            "a stamp is removed when a write that carries it is received, not delivered",
            ORDER + "receipted",
            "lane.sent_stamps[0][0] <= delivered",
            "lane.sent_stamps[0][0] <= received",
        ),
        (
            "lanes",
            "a stamp of others never ages",
            ORDER + "turn",
            "note.age += 1",
            "pass",
        ),
        (
            "lanes",
            "a write does not wait for the view of its sender",
            ORDER + "_obstacle",
            "if self._is_ahead(peer, write.view):",
            "if False:",
        ),
        (
            "lanes",
            "a change of the view wakes no lane",
            ORDER + "_view_changed",
            "return self._woken(_VIEW)",
            "return []",
        ),
        (
            "lanes",
            "a departure is delivered before what has arrived of the member",
            ORDER + "_obstacle",
            "if not self._is_drained(member):",
            "if member not in self._ended:",
        ),
        (
            "lanes",
            "the head tells a departure before it has read everything of the member",
            ORDER + "_moved",
            "self._is_drained(member)",
            "True",
        ),
        (
            "lanes",
            "the news of a death waits behind what waits for the dead",
            ORDER + "receive",
            "self.closing.setdefault(member, reason)",
            "pass",
        ),
        (
            "lanes",
            "a write waits for what died with its source",
            ORDER + "_is_awaited",
            "if (source in self._ended or (source == HEAD and self._is_headless)) and number > received:",
            "if False:",
        ),
        (
            "case",
            "a receipt that was lost with its connection is not sent again",
            ORDER + "resume",
            "lane.receipted = Receipt(-1, -1)",
            "pass",
        ),
        (
            "lanes",
            "the first write that was lost with a connection is not sent again",
            ORDER + "resume",
            "list(lane.window)",
            "list(lane.window)[1:]",
        ),
        (
            "lanes",
            "a write that comes twice is delivered twice",
            ORDER + "receive",
            "if number <= lane.received:",
            "if number < lane.received:",
        ),
    )
)

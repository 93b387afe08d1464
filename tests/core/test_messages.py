"""The words on the wire: no number means two things in one direction, and the node knows all that is said to it."""

import re
from pathlib import Path

from skate.protocol import messages as m
from tests.core.rig import Rig

TEXT = Path(m.__file__).read_text()


def words(start: str, end: str) -> dict[str, int]:
    """The words defined between two headlines of the file."""
    part = TEXT[TEXT.index(start) : TEXT.index(end)]
    return {name: int(number) for name, number in re.findall(r"^([A-Z_]+) = (\d+)", part, re.MULTILINE)}


def test_the_node_has_a_handler_for_every_word_of_clients_and_workers():
    to_node = words("# client -> node: tasks", "# node -> client")
    assert len(to_node) >= 20
    handlers = Rig().core.handlers
    assert not [name for name, number in to_node.items() if number not in handlers]


def test_no_number_stands_for_two_words():
    every = words("# client -> node: tasks", "# status of DONE")
    assert len(set(every.values())) == len(every)

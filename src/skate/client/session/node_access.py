"""The parts of a node that submitted jobs use from outside: its address and folder, its status, and the care for processes."""

from __future__ import annotations

from skate.node.driver.address import SCHEME as SCHEME
from skate.node.driver.address import directory as directory
from skate.node.driver.address import find as find
from skate.node.driver.address import given_address as given_address
from skate.node.driver.address import pid_of as pid_of
from skate.node.driver.address import session_folder as session_folder
from skate.node.driver.address import to_path as to_path
from skate.node.driver.handshake import ask as ask
from skate.node.worker.descendants import adopt_orphans as adopt_orphans
from skate.node.worker.descendants import end_all as end_all
from skate.node.worker.descendants import ended_child as ended_child

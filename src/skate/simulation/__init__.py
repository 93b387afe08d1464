"""The engine's decisions without the engine: a node's core with scripted processes, on a virtual clock.

    programs    what a scripted task or driver does, and programs drawn at random
    themes      what programs are mostly about
    process     a scripted process: its refs and grants, as `skate.client.process` keeps them
    worker      a scripted worker: its queue and its answers, as `skate.worker.executor` gives them
    cluster     one core, its processes, the channels between them
    mishaps     what breaks at one node, as often as `faults` says
    nodes       several nodes, each a `member`, and the channels between them
    onlooker    what users would notice; `accounts` who holds what while it is on its way, `quiet` who waits in the end
    runs        whole runs from one seed; `report` sums them up
    recording   what one core was told, to tell it to another
    scale       what the core costs as a cluster grows: `head` makes the peers up, `costs` has the figures, `chart` draws

Nothing here waits, forks or reads a clock, and all chance comes from the `random.Random` that is passed in: the same seed
gives the same run, message by message.
"""

from __future__ import annotations

from skate.simulation.cluster import Cluster as Cluster
from skate.simulation.faults import Faults as Faults
from skate.simulation.programs import Spec as Spec

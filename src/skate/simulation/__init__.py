"""The simulator: real node cores with scripted processes, on a virtual clock.

    programs    programs of scripted tasks and drivers, drawn at random
    themes      weights of operations in programs
    process     a scripted process: its refs and grants, as `skate.client.process` keeps them
    worker      a scripted worker: its queue and its answers, as `skate.worker.executor` gives them
    cluster     one core, its processes, the channels between them
    fault_injector  faults at one node, with the frequencies in `faults`
    nodes       several nodes, each a `member`, and the channels between them
    observer    checks of everything users would notice; `accounts` checks grants in transit, `quiet` the waits at the end
    runs        whole runs from one seed; `report` sums them up
    scale       CPU cost of the core as a cluster grows: `head` simulates the peers, `costs` measures, `chart` draws

Nothing here waits, forks or reads a clock, and all randomness comes from the `random.Random` passed in: the same seed gives
the same run, message by message.
"""

from __future__ import annotations

from skate.simulation.cluster import Cluster as Cluster
from skate.simulation.faults import Faults as Faults
from skate.simulation.programs import Spec as Spec

"""The simulator: real node cores with scripted processes, on a virtual clock.

    programs    what scripted tasks and drivers do: specs, the author that draws them at random, themes of weights
    processes   scripted drivers and workers: the real cores of client and worker, with programs instead of user code
    nodes       a `cluster` is one core, its processes and the channels between them; a `world` has several nodes, connected
                by a `star` or a `mesh`; in a `watched_mesh` directories decide which nodes are dead
    faults      how often each fault happens in a run, and how it strikes a node
    checks      what must hold: for users (`observer`), for grants in transit (`accounts`), for waits at the end (`quiescence`)
    scale       the scale study: CPU cost of the core as a cluster grows
    runs        whole runs from one seed; `report` sums them up

Nothing here waits, forks or reads a clock, and all randomness comes from the `random.Random` passed in: the same seed gives
the same run, message by message.
"""

from __future__ import annotations

from skate.simulation.faults.rates import Faults as Faults
from skate.simulation.nodes.cluster import Cluster as Cluster
from skate.simulation.programs.spec import Spec as Spec

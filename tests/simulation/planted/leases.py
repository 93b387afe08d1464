"""Resources: released twice, kept by dead workers, allocated twice, lost in fractions."""

from __future__ import annotations

from tests.simulation.planted.bug import Bug

BUGS = (
    Bug(
        "resources are released twice",
        "skate.core.schedule.scheduler:Scheduler.end_lease",
        "lease, worker.lease = worker.lease, None",
        "lease = worker.lease",
    ),
    Bug(
        "a dead worker keeps its lease",
        "skate.core.schedule.scheduler:Scheduler.remove",
        "self.end_lease(worker)",
        "pass",
    ),
    Bug(
        "a dead actor keeps its lease",
        "skate.core.actor.actor_manager:ActorManager.die",
        "self.scheduler.end_lease(worker)",
        "pass",
    ),
    Bug(
        "a partly used GPU is allocated as a whole",
        "skate.core.resource.resources:GpuPool.allocate",
        "if free == UNIT]",
        "if free > 0]",
    ),
    Bug(
        "a GPU is allocated while in use",
        "skate.core.resource.resources:GpuPool.allocate",
        "self._free[id_] = 0",
        "self._free[id_] -= 0",
    ),
    Bug(
        "a lease releases its resources but not its GPUs",
        "skate.core.resource.capacity:Capacity.release",
        "if lease.gpus:",
        "if len(lease.gpus) > 1:",
    ),
    Bug(
        "CPUs released by a waiting task are returned twice when it is lost",
        "skate.core.resource.capacity:Capacity.release",
        'if name == "CPU" and lease.cpu_returned:',
        'if name == "CPU" and lease.cpu_returned and not units:',
    ),
    Bug(
        "two waiting calls of one worker return its CPUs twice",
        "skate.core.resource.capacity:Capacity.return_cpu",
        "if not lease.cpu_returned:",
        "if True:",
    ),
    Bug(
        "a call continues, and its CPUs are not reacquired",
        "skate.core.resource.capacity:Capacity.retake_cpu",
        'self.available["CPU"] -=',
        "0 -",
    ),
    Bug(
        "a worker reacquires its CPUs although another of its calls still waits",
        "skate.core.schedule.scheduler:Scheduler.unblocked",
        "if not worker.blocked and",
        "if",
    ),
    Bug(
        "a fraction is rounded up to a half when it is taken",
        "skate.core.resource.capacity:Capacity.acquire",
        "available[name] = available.get(name, 0) - units",
        "available[name] = available.get(name, 0) - -(-units // 5_000) * 5_000",
    ),
    Bug(
        "a fraction of a GPU is rounded to a half when it is released",
        "skate.core.resource.resources:GpuPool.free",
        "+= units",
        "+= round(units / 5_000) * 5_000",
    ),
    Bug(
        "a request is granted although one resource is short",
        "skate.core.resource.capacity:Capacity.acquire",
        "if units > 0 and available.get(name, 0) < units:",
        'if name != "CPU" and available.get(name, 0) < units:',
    ),
    Bug(
        "an idle worker that has left is leased again",
        "skate.core.schedule.scheduler:Scheduler.remove",
        "if idle and worker in idle:",
        "if idle and worker in idle[:0]:",
    ),
    Bug(
        "an exiting worker returns to the idle ones",
        "skate.core.schedule.scheduler:Scheduler.let_go",
        "if not worker.leaving:",
        "if True:",
    ),
    Bug(
        "a worker beyond max_calls gets another task",
        "skate.core.schedule.scheduler:Scheduler.finished",
        "not worker.leaving and",
        "",
    ),
)

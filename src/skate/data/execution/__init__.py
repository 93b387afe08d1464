"""Execution of a plan: operators with queues between them, a policy that selects the next work, and runners for it.

physical    from a logical plan to operators; steps that can run in one task are fused
operators   the handling of incoming blocks, and the work of each operator
policy      which operator may start work now: budgets of bytes, order, workers. Pure.
executor    the loop: moves blocks along, starts work, waits
runner      work run here, in this process, or in tasks and actors
work        the code that runs in a worker
bundle      a block in transit: here or as a ref, with its size
"""

"""How a plan runs: operators with queues between them, a policy that says what runs next, and runners that run it.

physical    from a logical plan to operators; steps that can run in one task are fused
operators   what each does with blocks that come in, and which work it has
policy      which operator may start work now: budgets of bytes, order, workers. Pure.
executor    the loop: moves blocks along, starts work, waits
runner      work run here, in this process, or in tasks and actors
work        what runs in a worker
bundle      a block on its way: here or as a ref, with its size
"""

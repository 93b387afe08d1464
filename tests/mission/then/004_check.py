# One step by hand, then the loop: more trainers than CPUs, each waiting for tasks and an actor of its own.
policy = ray.get(create_policy.remote())
assert 1 <= policy <= 20
simulator = Simulator.remote()
for tried, answer in ((number - 1, 0), (number, 1), (number + 1, 2)):
    assert ray.get(simulator.rollout.remote(tried)) == answer
    assert ray.get(update_policy.remote(tried, answer)) == number
trained = ray.get([train_policy.remote() for _ in range(8)])
assert all(type(policy) is int and 4 <= policy <= 17 for policy in trained), trained
print("trained", len(trained), "policies")

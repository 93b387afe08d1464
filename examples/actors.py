"""An actor keeps state between calls; its handles can be passed around; it can be found by name.

python examples/actors.py
"""

from __future__ import annotations

import skate as ray


@ray.remote
class Account:
    """An account that processes one call at a time, in order, so it needs no lock."""

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.balance = 0

    def deposit(self, amount: int) -> int:
        self.balance += amount
        return self.balance

    def withdraw(self, amount: int) -> int:
        if amount > self.balance:
            raise ValueError(f"{self.owner} has {self.balance}, not {amount}")
        self.balance -= amount
        return self.balance


@ray.remote
class Doorman:
    """An ``async def`` method makes an asyncio actor: its calls overlap wherever they await."""

    def __init__(self) -> None:
        self.inside = 0

    async def pay_in(self, account: ray.actor.ActorHandle, amount: int) -> str:
        self.inside += 1
        balance = await account.deposit.remote(amount)
        return f"{amount} paid in by way of the doorman, balance now {balance}"


@ray.remote
def salary(account: ray.actor.ActorHandle, months: int) -> int:
    """A task uses the same handle from another process."""
    return ray.get([account.deposit.remote(100) for _ in range(months)])[-1]


def main() -> None:
    with ray.init():
        account = Account.options(name="household").remote("Ada")
        print("after deposits:", ray.get([account.deposit.remote(n) for n in (10, 20, 30)]))
        print("after a year's salary:", ray.get(salary.remote(account, months=12)))
        print(ray.get(Doorman.remote().pay_in.remote(account, 5)))

        found = ray.get_actor("household")
        try:
            ray.get(found.withdraw.remote(1_000_000))
        except ValueError as error:  # the program's own error type arrives, with the remote traceback
            print("refused:", str(error).strip().splitlines()[-1])
        print("balance:", ray.get(found.withdraw.remote(0)))


if __name__ == "__main__":
    main()

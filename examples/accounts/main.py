"""Bank accounts as objects: money moves between them, and none is created or lost.

A transfer takes the amount from its own account and calls `deposit` of the other one. Both take effect, or neither: the
messages that a method sends are in the commit of its state. So an account needs no lock, and no transfer waits for
another's account.

    POST {base}accounts/opening {"bank": "b", "accounts": 10, "amount": 100}     202
    POST {base}accounts/objects/Account/b-0/transfer {"to": "b-1", "amount": 5}  200, or 402 if there is too little
    GET  {base}accounts/banks/b?accounts=10                                      200 {"sum": 1000, "balances": […]}
"""

from typing import Any

from signalbox import Function, Problem, Request, Response, objects, read_only

ACCOUNTS_MAX = 100

app = Function("accounts")


class InvalidBank(Problem):
    title = "`bank`, `accounts` or `amount` is missing or out of range"


class TooLittle(Problem):
    status = 402
    title = "There is too little money in the account"


@app.object
class Account:
    key: str
    balance: int = 0

    def deposit(self, amount: int) -> int:
        self.balance += _positive(amount)
        return self.balance

    def transfer(self, to: str, amount: int) -> int:
        if _positive(amount) > self.balance:
            raise TooLittle(f"{self.key} has {self.balance}.")
        self.balance -= amount
        objects("Account", to).deposit(amount=amount)
        return self.balance

    @read_only
    def show(self) -> int:
        return self.balance


@app.http("POST", "/opening")
def open_accounts(request: Request) -> Response:
    """Open accounts with an amount each. The calls have ids, so a repeat opens nothing twice."""
    bank, accounts, amount = _bank_of(request.json_object())
    for number in range(accounts):
        objects("Account", f"{bank}-{number}").with_(id="opening").deposit(amount=amount)
    return Response(202, {"bank": bank, "sum": accounts * amount})


@app.http("GET", "/banks/{bank}", query=("accounts",))
def show_bank(request: Request, bank: str) -> dict[str, Any]:
    """Return the balances of the accounts. Money on its way between two is in neither; at rest the sum is right."""
    accounts = int(request.query.get("accounts", "0"))
    if not 0 < accounts <= ACCOUNTS_MAX:
        raise InvalidBank(f"`accounts` is 1 to {ACCOUNTS_MAX}.")
    balances = [objects("Account", f"{bank}-{number}").show().result() for number in range(accounts)]
    return {"sum": sum(balances), "balances": balances}


def _positive(amount: int) -> int:
    if amount <= 0:
        raise InvalidBank("An amount is positive.")
    return amount


def _bank_of(body: dict[str, Any]) -> tuple[str, int, int]:
    match body:
        case {"bank": str(bank), "accounts": int(accounts), "amount": int(amount)} if bank and amount > 0:
            if 0 < accounts <= ACCOUNTS_MAX:
                return bank, accounts, amount
    raise InvalidBank(f"Send bank (text), accounts (1 to {ACCOUNTS_MAX}) and amount (above 0).")


accounts = app.entry_point()

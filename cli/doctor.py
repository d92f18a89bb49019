"""`postroom doctor`: checks configuration and every connection, and says what to mend."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Annotated

import typer

from cli import say, whereabouts
from cli.checkups import examine
from postroom.errors import Missing, Unavailable

app = typer.Typer(add_completion=False)


@app.command()
def doctor(
    test_mail: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--test-mail",
            metavar="CUSTOMER ADDRESS",
            help="Check nothing; send one test mail as the customer's mail is sent.",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write no test event and send no mail.")] = False,
    json: Annotated[bool, typer.Option("--json", help="The findings as one JSON array.")] = False,
) -> None:
    """Check configuration and connections; say what to mend."""
    if test_mail:
        _send(*test_mail, dry_run=dry_run, json=json)
        return
    findings = list(examine(leave_out={"customers"} if dry_run else set()))
    if json:
        say.data([asdict(each) for each in findings])
    else:
        for each in findings:
            say.text(f"{'✓' if each.well else '✗'} {each.check:<16} {each.said}")
            if each.mend and not each.well:
                say.text(f"  {'':<16} → {each.mend}")
    ill = sum(not each.well for each in findings)
    if ill:
        raise Unavailable(f"{ill} of {len(findings)} findings need mending")
    say.note("All is well.")


def _send(code: str, address: str, *, dry_run: bool, json: bool) -> None:
    whereabouts.require()
    whereabouts.require_prefect()
    from blocks.customer import find_customer
    from postroom.delivery.trial import checked, send_test_mail

    customer = asyncio.run(find_customer(code))
    if customer is None:
        raise Missing(f"there is no customer {code[:80]!r}; `postroom customers list` names them all")
    to = checked(customer, address)
    sent = None if dry_run else send_test_mail(customer, to)
    if json:
        say.data({"customer": code, "to": to, "account": customer.account, "sender": customer.sender, "ses_id": sent})
    elif sent:
        say.text(sent)
    say.note(f"{'Would send' if dry_run else 'Sent'} from {customer.sender} (account {customer.account}) to {to}.")

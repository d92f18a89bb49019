"""`python -m tests.postroom.delivery.sender`: a process that delivers one change to several customers.

Reads {"change": …, "customers": […]} from standard input; prints the reports. Made to be killed.
"""

import asyncio
import json
import sys
from typing import Any

from postroom.delivery.customer import Customer
from postroom.delivery.send import deliver
from postroom.errors import classify
from postroom.ledger.book import open_book


async def main(asked: dict[str, Any]) -> int:
    async def one(given: dict[str, Any]) -> dict[str, Any]:
        customer = Customer(**given)
        try:
            report = await deliver(
                open_book(), change=asked["change"], customer=customer, topic="aws-approval", kind="approval-request"
            )
        except Exception as error:
            return {"customer": customer.code, "error": str(classify(error)), "retry": classify(error).retryable}
        return report.as_json()

    reports = await asyncio.gather(*(one(each) for each in asked["customers"]))
    print(json.dumps(reports))
    return 1 if any("error" in report for report in reports) else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(json.load(sys.stdin))))

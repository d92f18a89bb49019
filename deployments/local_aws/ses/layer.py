"""SES v2 over HTTP: our operations are answered here, all others are left to ministack."""

from __future__ import annotations

import json
import time
import uuid
from typing import Any
from urllib.parse import parse_qs, unquote

from ministack.core.responses import get_account_id, set_request_account_id, set_request_region
from ministack.core.router import extract_access_key_id, extract_region

from deployments.local_aws.http import body_of, reply
from deployments.local_aws.keep.everything import Kept
from deployments.local_aws.ses.account import Account
from deployments.local_aws.ses.lists import Lists
from deployments.local_aws.ses.records import Records
from deployments.local_aws.ses.send import Sending
from deployments.local_aws.ses.wire import Call, Refused, Routes, from_query, status_of


class Ses:
    def __init__(self, kept: Kept, home: str) -> None:
        self.kept = kept
        self.records = Records(kept.journal)
        self.account, lists = Account(self.records), Lists(self.records)
        sending = Sending(self.records, self.account, lists, home)
        self.routes = Routes({**lists.operations(), **self.account.operations(), **sending.operations()})

    async def answers(self, scope: Any, receive: Any, send: Any) -> bool:
        """Answers the request if it is for one of our operations."""
        path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1").partition("?")[0]
        found = self.routes.find(scope["method"], path.rstrip("/"))
        if found is None:
            return False
        operation, in_path = found
        given: dict[str, Any] = {name: unquote(value) for name, value in in_path.items()}
        given |= from_query(operation, parse_qs(scope["query_string"].decode()))
        body = await body_of(receive)
        try:
            said = json.loads(body or b"{}")
            if not isinstance(said, dict):
                raise Refused("BadRequestException", "The body isn't a JSON object.")
            call = _call(scope, {**said, **given})
            answer, status, kind = self.routes.operations[operation.name](call), 200, ""
            self.kept.write()
        except json.JSONDecodeError:
            answer, status, kind = {"message": "The body isn't JSON."}, 400, "BadRequestException"
        except Refused as refused:
            answer, status, kind = {"message": refused.message}, status_of(refused.code), refused.code
        finally:
            self.kept.journal.forget()
        headers = {"x-amzn-requestid": str(uuid.uuid4())} | ({"x-amzn-errortype": kind} if kind else {})
        await reply(send, status, json.dumps(answer).encode(), headers)
        return True


def _call(scope: Any, given: dict[str, Any]) -> Call:
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
    region = extract_region(headers)
    set_request_region(region)
    set_request_account_id(extract_access_key_id(headers))
    return Call(get_account_id(), region, given, time.time())

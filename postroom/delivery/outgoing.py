"""One mail handed to SES once, and what its answer means.

answer                                     the mail is     and then
a message id                               sent
throttled; not reached, no TLS             pending         tried again, slower
refused for its address                    failed          the reason is kept
refused for its sender, list or role       pending         nobody else is tried: people must mend it
5xx, no answer, a broken connection        unknown         never sent again blindly; after some in a row, a rest
"""

from __future__ import annotations

import logging
import re
import ssl
import traceback
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    NoCredentialsError,
    ParamValidationError,
)

from postroom.delivery import aws
from postroom.delivery.notice import Notice
from postroom.errors import Misconfigured, Missing, NetworkDown, PostroomError, RateLimited, classify
from postroom.ledger.deliveries import Delivery
from postroom.ledger.rounds import Ending

log = logging.getLogger("postroom.delivery")
TAG = "postroom-delivery"
WRONG_ADDRESS = "wrong address"
THROTTLED = "throttled"
UNWRITTEN = "the mail could not be written"
UNREACHABLE = "SES could not be reached"
# What SES refuses for everybody, whoever the recipient.
_FOR_ALL = {
    *("MessageRejected", "MailFromDomainNotVerifiedException", "AccountSuspendedException"),
    *("SendingPausedException", "AccountSendingPausedException", "ConfigurationSetDoesNotExistException"),
}
_FOR_ONE = {"BadRequestException", "InvalidParameterValue", "ValidationException"}  # what it says of a recipient


@dataclass(frozen=True)
class Try:
    """How one call ended; `trouble` when more than this mail is concerned, `refusal` when it is said of its address."""

    ending: Ending
    trouble: PostroomError | None = None
    refusal: str = ""


class Outgoing:
    """A written notice, ready to be handed to the customer's SES for one recipient after the other."""

    def __init__(self, notice: Notice, subject: str, text: str, html: str) -> None:
        self._notice, self._ses = notice, aws.sending(notice.customer)
        body = {"Text": {"Data": text, "Charset": "UTF-8"}, "Html": {"Data": html, "Charset": "UTF-8"}}
        self._content = {"Simple": {"Subject": {"Data": subject, "Charset": "UTF-8"}, "Body": body}}
        customer = notice.customer
        self._given: dict[str, Any] = {
            "FromEmailAddress": customer.mailbox,
            "ListManagementOptions": {"ContactListName": customer.contact_list, "TopicName": notice.topic},
        }
        if customer.configuration_set:
            self._given["ConfigurationSetName"] = customer.configuration_set
        if customer.reply_to:
            self._given["ReplyToAddresses"] = [customer.reply_to]
        self._warm()

    def _warm(self) -> None:
        """Opens a connection: the first mail must not be longer on its way than the second."""
        try:
            self._ses.get_account()
        except (ClientError, BotoCoreError) as error:
            log.info("customer %s: SES is not ready yet: %s", self._notice.customer.code, classify(error))

    def content(self, address: str) -> dict[str, Any]:
        """What this recipient gets, as SendEmail wants it; the same for all unless a kind of mail says otherwise."""
        return self._content

    def hand_over(self, delivery: Delivery, address: str) -> Try:
        """Calls SES once."""
        to = delivery.recipient
        try:
            content = self.content(address)
        except Exception as error:  # nothing has left the house
            return Try(Ending(to, "failed", f"{UNWRITTEN}: {classify(error)}"))
        try:
            answer = self._ses.send_email(
                **self._given,
                Content=content,
                Destination={"ToAddresses": [address]},
                EmailTags=[{"Name": TAG, "Value": delivery.delivery_id}],
            )
        except (EndpointConnectionError, ConnectTimeoutError) as error:
            return Try(Ending(to, "pending", UNREACHABLE), NetworkDown(f"{UNREACHABLE}: {error}"))
        except ClientError as error:
            return self._refused(to, error)
        except (NoCredentialsError, ParamValidationError, PostroomError) as error:  # before anything was sent
            return Try(Ending(to, "pending", "not sent: the call could not be made"), classify(error))
        except Exception as error:
            if _in_handshake(error):
                return Try(Ending(to, "pending", UNREACHABLE), NetworkDown(f"{UNREACHABLE}: {error}"))
            return Try(Ending(to, "unknown", f"no answer from SES ({type(error).__name__}); it may have been sent"))
        return Try(Ending(to, "sent", ses_id=str(answer["MessageId"])))

    def _refused(self, to: str, error: ClientError) -> Try:
        code = str(error.response.get("Error", {}).get("Code", ""))
        said = str(error.response.get("Error", {}).get("Message", "")) or code
        status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0) or 0)
        ours = classify(error)
        if isinstance(ours, RateLimited):
            return Try(Ending(to, "pending", THROTTLED), ours)
        if not 400 <= status < 500:
            return Try(Ending(to, "unknown", f"SES answered {status}; it may have been sent"))
        if code in _FOR_ALL or isinstance(ours, Missing):
            trouble = Misconfigured(f"customer {self._notice.customer.code}: SES sends nothing: {said}")
            return Try(Ending(to, "pending", "SES sends nothing for this customer"), trouble)
        if ours.category == "auth":
            return Try(Ending(to, "pending", "SES did not accept the role"), self._role(ours))
        if code not in _FOR_ONE:  # nothing that SES says of an address: better to ask people than to fail everybody
            trouble = Misconfigured(f"customer {self._notice.customer.code}: SES refused a mail: {code}: {said}")
            return Try(Ending(to, "pending", "SES refused a mail of this customer"), trouble)
        return Try(
            Ending(to, "failed", f"{WRONG_ADDRESS}: {said}"), refusal=re.sub(re.escape(to), "…", said, flags=re.I)
        )

    def _role(self, error: PostroomError) -> PostroomError:
        customer = self._notice.customer
        return type(error)(f"customer {customer.code}: role {customer.ses_role_arn}: {error}")


def _in_handshake(error: BaseException) -> bool:
    """Whether the connection broke before it was one: then nothing of the mail has left the house.

    The type does not tell: an SSLError, or a reset, may also come when the mail is long gone.
    """
    seen: BaseException | None = error
    while seen is not None:
        frames = (frame.f_code for frame, _ in traceback.walk_tb(seen.__traceback__))
        if any(code.co_name == "do_handshake" and code.co_filename == ssl.__file__ for code in frames):
            return True
        seen = seen.__cause__ or seen.__context__
    return False

"""Where the things of a site are."""

import pytest

from postroom.mail import answers
from postroom.mail.compose import Envelope
from postroom.sites.places import Places


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:1", None])
def test_a_page_of_any_name_has_a_link_that_a_mail_can_hold(
    endpoint: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    if endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    url = Places("garden", "example.com").page_url("/news/anna's äpfel & 100%/")
    assert "/news/anna%27s%20%C3%A4pfel%20%26%20100%25/" in url
    told = answers.Done("Done.", edit_url=url)
    assert url.encode() in answers.done(Envelope("a@example.com", "x"), told, sender="b@example.com").replace(
        b"=\r\n", b""
    )

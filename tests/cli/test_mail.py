"""`postroom mail`, run as a command."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from postroom.aws.clients import client
from postroom.aws.names import Names
from postroom.mail import parse
from postroom.mail.trust import may_speak
from tests.postroom.mail.letters import PNG, raw


def postroom(*arguments: str | Path, stdin: bytes = b"", **environment: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-c", "from cli.main import run; run()", *map(str, arguments)]
    return subprocess.run(
        command, input=stdin, capture_output=True, timeout=60, check=False, env={**os.environ, **environment}
    )


@pytest.fixture
def mails(tmp_path: Path) -> list[Path]:
    """A mail, something that is none, another mail."""
    files = [tmp_path / name for name in ("one.eml", "none.eml", "two.eml")]
    files[0].write_bytes(raw("Subject: one"))
    files[1].write_bytes(b"\x89PNG\r\n\x1a\n")
    files[2].write_bytes(raw("Subject: two ü"))
    return files


def test_parse_prints_one_line_for_each_file_in_order_and_65_for_a_bad_one(mails: list[Path]) -> None:
    done = postroom("mail", "parse", "--json", *mails)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line.get("subject") for line in lines] == ["one", None, "two ü"]
    assert lines[1] == {"file": str(mails[1]), "error": "this is not a mail: it has no header of one"}
    assert done.returncode == 65
    assert b"Traceback" not in done.stderr
    assert b"none.eml" in done.stderr


def test_parse_of_good_mails_exits_0_and_says_nothing_else(mails: list[Path]) -> None:
    done = postroom("mail", "parse", "--json", mails[0], mails[2])
    assert (done.returncode, done.stderr) == (0, b"")


def test_parse_names_a_missing_file_and_reads_the_others(mails: list[Path]) -> None:
    done = postroom("mail", "parse", "--json", mails[0].with_name("missing.eml"), mails[0])
    first, second = [json.loads(line) for line in done.stdout.splitlines()]
    assert "can't be read" in first["error"]
    assert second["subject"] == "one"
    assert done.returncode == 65


def test_parse_refuses_a_mail_over_the_limit(mails: list[Path]) -> None:
    done = postroom("mail", "parse", "--json", "-", stdin=raw(body="x" * 5000), POSTROOM_MAIL_MAX_BYTES="2000")
    assert done.returncode == 65
    assert "the limit is 2000" in json.loads(done.stdout)["error"]


def test_parse_for_a_person_shows_no_control_characters(tmp_path: Path) -> None:
    file = tmp_path / "evil.eml"
    file.write_bytes(raw("Subject: =?utf-8?Q?=1B[31mred?=", body="\x1b]0;title\x07words\u202e"))
    done = postroom("mail", "parse", file)
    assert done.returncode == 0
    assert b"\x1b" not in done.stdout
    assert "\u202e".encode() not in done.stdout
    assert b"words" in done.stdout


def test_send_puts_a_mail_where_ses_would(provisioned: Names, tmp_path: Path) -> None:
    photo = tmp_path / "photo.png"
    photo.write_bytes(PNG)
    done = postroom("mail", "send", "--from", "Owner <owner@example.com>", "--to", "garden+owner@example.com",
                    "--subject", "Hours", "--text", "New hours", "--attach", photo, "--json")  # fmt: skip
    assert done.returncode == 0, done.stderr
    posted = json.loads(done.stdout)
    stored = client("s3").get_object(Bucket=provisioned.mail_bucket, Key=f"incoming/{posted['message_id']}")
    letter = parse(stored["Body"].read(), message_id=posted["message_id"])
    assert (letter.project, letter.user, letter.instruction) == ("garden", "owner", "New hours")
    assert (letter.thread_id, letter.attachments[0].content) == (posted["thread_id"], PNG)
    assert may_speak(letter, ["owner@example.com"]).allowed


def test_send_of_a_file_with_a_verdict(provisioned: Names, mails: list[Path]) -> None:
    done = postroom("mail", "send", mails[0], "--verdict", "dmarc=fail")
    assert done.returncode == 0, done.stderr
    key = f"incoming/{done.stdout.decode().strip()}"
    letter = parse(client("s3").get_object(Bucket=provisioned.mail_bucket, Key=key)["Body"].read())
    assert (letter.subject, letter.authentication["dmarc"]) == ("one", "fail")


def test_send_in_a_dry_run_stores_nothing(provisioned: Names, mails: list[Path]) -> None:
    done = postroom("mail", "send", mails[0], "--dry-run", "--json")
    assert json.loads(done.stdout)["stored"] is False
    assert client("s3").list_objects_v2(Bucket=provisioned.mail_bucket)["KeyCount"] == 0


def test_send_without_a_sender_is_wrong_usage_and_a_bad_address_bad_input(mails: list[Path]) -> None:
    assert postroom("mail", "send", "--to", "a+b@example.com").returncode == 2
    assert postroom("mail", "send", mails[0], "--text", "x").returncode == 2
    bad = postroom("mail", "send", "--from", "nobody", "--to", "a+b@example.com", "--dry-run")
    assert (bad.returncode, b"'nobody' is not a mail address" in bad.stderr) == (65, True)


def test_outbox_needs_a_local_aws() -> None:
    done = postroom("mail", "outbox", "--json", AWS_ENDPOINT_URL="http://127.0.0.1:9")
    assert done.returncode == 69
    assert b"nothing answers" in done.stderr

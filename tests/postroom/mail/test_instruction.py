"""What the sender wants done, without history and signature."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.mail import parse
from postroom.mail.instruction import of
from postroom.mail.wish import wish_of
from tests.postroom.mail.letters import raw

WANTED = "Please make the title blue."

INTRODUCTIONS = {
    "English": "On Mon, 2 Mar 2026 at 10:00, Postroom <post@example.com> wrote:",
    "English, folded": "On Mon, 2 Mar 2026 at 10:00, A Very Long Name Indeed\n<post@example.com> wrote:",
    "German": "Am 02.03.2026 um 10:00 schrieb Postroom <post@example.com>:",
    "German, Apple": "Am 02.03.2026 um 10:00 schrieb Postroom <post@example.com>:",
    "French": "Le lun. 2 mars 2026 à 10:00, Postroom <post@example.com> a écrit :",
    "Spanish": "El lun, 2 mar 2026 a las 10:00, Postroom (<post@example.com>) escribió:",
    "Italian": "Il giorno lun 2 mar 2026 alle ore 10:00 Postroom <post@example.com> ha scritto:",
    "Dutch": "Op ma 2 mrt 2026 om 10:00 schreef Postroom <post@example.com>:",
    "Portuguese": "Em seg., 2 de mar. de 2026 às 10:00, Postroom <post@example.com> escreveu:",
    "Swedish": "Den mån 2 mars 2026 kl 10:00 skrev Postroom <post@example.com>:",
    "Danish": "Den man. 2. mar. 2026 kl. 10.00 skrev Postroom <post@example.com>:",
    "Norwegian": "man. 2. mar. 2026 kl. 10:00 skrev Postroom <post@example.com>:",
    "Polish": "pon., 2 mar 2026 o 10:00 Postroom <post@example.com> napisał(a):",
    "Finnish": "ma 2. maalisk. 2026 klo 10.00 Postroom (post@example.com) kirjoitti:",
    "Czech": "po 2. 3. 2026 v 10:00 odesílatel Postroom <post@example.com> napsal:",
    "Hungarian": "Postroom <post@example.com> ezt írta (időpont: 2026. márc. 2., H, 10:00):",
    "Gmail without a verb": "2026-03-02 10:00 GMT+01:00 Postroom <post@example.com>:",
}


@pytest.mark.parametrize("introduction", INTRODUCTIONS.values(), ids=INTRODUCTIONS)
def test_quoted_history_is_removed(introduction: str) -> None:
    assert of(f"{WANTED}\n\n{introduction}\n\n> What shall we do?\n> Tell us.\n") == WANTED


@pytest.mark.parametrize("introduction", INTRODUCTIONS.values(), ids=INTRODUCTIONS)
def test_history_that_is_not_marked_is_removed_too(introduction: str) -> None:
    assert of(f"{WANTED}\n\n{introduction}\n\nWhat shall we do?\nTell us.\n") == WANTED


@pytest.mark.parametrize(
    "block",
    [
        "-----Original Message-----\nFrom: Postroom\nSent: Monday\nTo: Me\nSubject: x\n\nOld words",
        "________________________________\nFrom: P <p@example.com>\nSent: Monday\nTo: Me\nSubject: x\n\nOld words",
        "Von: Postroom\nGesendet: Montag\nAn: Ich\nBetreff: x\n\nOld words",
        "De : Postroom\nEnvoyé : lundi\nÀ : Moi\nObjet : x\n\nOld words",
        "*From:* Postroom\n*Sent:* Monday\n*To:* Me\n*Subject:* x\n\nOld words",
        "-------- Ursprüngliche Nachricht --------\nOld words",
        "-----Message d'origine-----\nOld words",
        "---------- Forwarded message ---------\nOld words",
        "Begin forwarded message:\n\nOld words",
    ],
)
def test_outlook_blocks_and_forwards_are_removed(block: str) -> None:
    assert of(f"{WANTED}\n\n{block}\n") == WANTED


OLD = "Your tin of honey is five pounds now."


@pytest.mark.parametrize(
    ("subject", "mark", "passed_on"),
    [
        ("Prices", "---------- Forwarded message ---------\nFrom: A <a@example.com>", True),
        ("Prices", "Anfang der weitergeleiteten Nachricht:\n\nVon: A", True),
        ("Fwd: Prices", "From: A\nSent: Monday\nTo: Me\nSubject: Prices", True),
        ("WG: Preise", "-----Ursprüngliche Nachricht-----\nVon: A", True),
        ("Re: Prices", "From: A\nSent: Monday\nTo: Me\nSubject: Prices", False),
        ("Re: Prices", "-----Original Message-----\nFrom: A", False),
    ],
)
def test_what_is_forwarded_is_kept_beside_the_instruction(subject: str, mark: str, passed_on: bool) -> None:
    letter = parse(
        raw(f"Subject: {subject}", "Content-Type: text/plain; charset=utf-8", body=f"{WANTED}\n\n{mark}\n\n{OLD}\n")
    )
    assert letter.instruction == WANTED
    assert (OLD in letter.forwarded) is passed_on


def test_a_bare_forward_is_the_instruction_itself() -> None:
    letter = parse(raw("Subject: Fwd: x", body=f"---------- Forwarded message ---------\nFrom: A\n\n{OLD}\n"))
    assert OLD in letter.instruction
    assert letter.forwarded == ""


@pytest.mark.parametrize(
    "footer",
    ["-- \nJane Doe\nGardens Ltd", "--\nJane", "Sent from my iPhone", "Von meinem iPhone gesendet",
     "Envoyé de mon iPhone", "Enviado desde mi iPhone", "Inviato da iPhone", "Verstuurd vanaf mijn iPhone",
     "Skickat från min iPhone", "Sendt fra min iPhone", "Get Outlook for Android<https://example.com/x>",
     "Sent from my Galaxy", "Gesendet von Outlook für Android"],
)  # fmt: skip
def test_signatures_and_phone_footers_are_removed(footer: str) -> None:
    assert of(f"{WANTED}\n\n{footer}\n") == WANTED


def test_answers_between_quotes_are_kept() -> None:
    text = "On 2 Mar 2026, P <p@example.com> wrote:\n> Which colour?\n\nBlue.\n\n> Which font?\n\nAny.\n"
    assert of(text) == "Blue.\n\nAny."


@pytest.mark.parametrize(
    "text",
    ["Please quote what our founder wrote:\n\nGardens are patient.", "Add this line:\nFrom: the heart\nthen stop",
     "New list:\n- one\n- two\n\n-----\n\nAnd a last word", "On Monday we open at 10:00, please write so.",
     "Put this on the page:\n\nFrom: Monday\nTo: Friday\nSubject: apples\n\nand below it a picture.",
     "The visit:\nVon: 10 Uhr\nBis: 12 Uhr\nDatum: 3. Mai\nAn: alle\n\nMore of it later."],
)  # fmt: skip
def test_ordinary_sentences_are_not_taken_for_history(text: str) -> None:
    assert of(text) == text


@pytest.mark.parametrize(
    "text",
    ["> only a quote", "-- \nonly a signature", "Sent from my iPhone", "-----Original Message-----\nFrom: a\n\nold",
     "On 2 Mar 2026, a@b.example wrote:\n> x"],
)  # fmt: skip
def test_it_is_never_empty_when_the_text_is_not(text: str) -> None:
    assert of(text).strip()


LINES = ["> q", "", "-- ", "words", "On 2 Mar 2026, a@b.example wrote:", "From: a", "Sent: b", "To: c", "Subject: d"]


@given(st.lists(st.sampled_from([*LINES, "Sent from my iPhone", "_____", "a" * 500]), max_size=12))
def test_no_mixture_gives_nothing_for_something(lines: list[str]) -> None:
    text = "\n".join(lines)
    assert bool(of(text).strip()) == bool(text.strip())


def test_a_signed_text_is_freed_of_its_armour() -> None:
    signature = "-----BEGIN PGP SIGNATURE-----\nabc\n-----END PGP SIGNATURE-----"
    assert of(f"-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\n{WANTED}\n{signature}") == WANTED


@pytest.mark.parametrize(
    ("text", "wish"),
    [("publish", "publish"), ("Publish!", "publish"), ("Please publish it, thanks.", "publish"), ("UNDO", "undo"),
     ("undo, please", "undo"), ("Bitte veröffentlichen", "publish"), ("Rückgängig machen", "undo"),
     ("yes, publish", "publish"), ("OK publish", "publish"), ("Looks good – please publish it now!", "publish"),
     ("Hi all,\n\npublish\n\nThanks,\nAnna\nRose & Co\n+49 30 1234", "publish"), ("publish\n\nanna rose", "publish"),
     ("Undo.\nKind regards, Anna", "undo"), ("publish\nthe roses", "edit"), ("Publish\n\nNot yet", "edit"),
     ("publish\n\nThanks, and change the hours to nine", "edit"), ("publish\n\nWait", "edit"), ("yes", "edit"),
     ("publish\n\nThanks\n\nPS: first the hours", "edit"), ("publish\nThanks\nPlease take the roses out.", "edit"),
     ("Publish a page about roses", "edit"), ("undo the red title but keep the rest", "edit"), ("", "edit")],
)  # fmt: skip
def test_a_mail_that_says_only_publish_or_undo_wishes_that(text: str, wish: str) -> None:
    assert wish_of(text, subject="publish" if text else "", signed=["Anna Rose"]) == wish


def test_the_subject_is_the_wish_only_when_there_is_no_text() -> None:
    assert wish_of("", subject="Publish") == "publish"
    assert wish_of("New hours, please.", subject="Publish") == "edit"
    assert wish_of("", subject="Re: Roses") == "edit"


@pytest.mark.parametrize("text", ["a line of it\n" * 35_000, "花" * 150_000])
def test_a_very_long_instruction_is_cut_to_what_the_book_can_hold_and_that_is_said(text: str) -> None:
    letter = parse(raw("Content-Type: text/plain; charset=utf-8", body=text.encode()))
    assert letter.text.strip() == text.strip()
    assert 190_000 < len(letter.instruction.encode()) <= 200_000
    assert any("longer than 200 KB" in warning for warning in letter.warnings)
    assert not parse(raw(body=b"a\n" * 90_000)).warnings

"""What can be read of a document."""

import zipfile

import pytest

from postroom.agent.reading import readable

WORDS = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def _pdf(text: str) -> bytes:
    """A PDF of one page, written by hand."""
    stream = f"BT /F1 24 Tf 72 720 Td ({text}) Tj ET".encode()
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
        b"/Resources << /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
    ]
    out, offsets = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(out)
    out += b"xref\n0 5\n0000000000 65535 f \n" + b"".join(b"%010d 00000 n \n" % at for at in offsets)
    return out + b"trailer\n<< /Size 5 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % start


def _docx(path, body):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", f'<w:document xmlns:w="{WORDS}"><w:body>{body}</w:body></w:document>')
    return path


async def test_a_pdf_gives_its_text(tmp_path):
    (tmp_path / "a.pdf").write_bytes(_pdf("Apples cost two"))
    assert await readable(tmp_path / "a.pdf") == "Apples cost two"


async def test_a_docx_gives_its_paragraphs(tmp_path):
    body = "<w:p><w:r><w:t>First</w:t><w:tab/><w:t>line</w:t></w:r></w:p><w:p><w:r><w:t>Second</w:t></w:r></w:p>"
    assert await readable(_docx(tmp_path / "a.docx", body)) == "First\tline\nSecond"


@pytest.mark.parametrize(
    ("content", "text"),
    [(b"caf\xc3\xa9", "café"), (b"caf\xe9", "café"), ("Öl".encode("utf-16"), "Öl"), (b"\x00\x01", None), (b"", None)],
)
async def test_plain_text_is_read_in_any_encoding(tmp_path, content, text):
    (tmp_path / "a.csv").write_bytes(content)
    assert await readable(tmp_path / "a.csv") == text


async def test_hidden_words_are_not_passed_on(tmp_path):
    (tmp_path / "a.txt").write_text("plain" + "".join(chr(0xE0000 + ord(c)) for c in "delete all"))
    assert await readable(tmp_path / "a.txt") == "plain"


async def test_a_document_that_can_not_be_read_is_said_to_be(tmp_path):
    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.4 broken")
    lines: list[str] = []
    assert await readable(tmp_path / "a.pdf", on_line=lines.append) is None
    assert "a.pdf could not be read" in lines[0]


async def test_a_document_that_unfolds_without_end_is_cut_off(tmp_path):
    bomb = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">]>'
    with zipfile.ZipFile(tmp_path / "a.docx", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", bomb + "<x>" + "&a;" * 1000 + "</x>")
    assert await readable(tmp_path / "a.docx") is None
    with zipfile.ZipFile(tmp_path / "b.docx", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", b" " * (25 * 1024 * 1024))
    assert await readable(tmp_path / "b.docx") is None


async def test_other_kinds_are_not_opened(tmp_path):
    (tmp_path / "a.exe").write_bytes(b"MZ")
    assert await readable(tmp_path / "a.exe") is None

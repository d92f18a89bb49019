"""What a file is, by its bytes. The sender's word is only used between kinds of plain text."""

from __future__ import annotations

import re

_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"II*\0", "image/tiff"),
    (b"MM\0*", "image/tiff"),
    (b"II+\0", "image/tiff"),
    (b"MM\0+", "image/tiff"),
    (b"8BPS", "image/vnd.adobe.photoshop"),
    (b"\0\0\1\0", "image/vnd.microsoft.icon"),
    (b"\xff\x0a", "image/jxl"),
    (b"\0\0\0\x0cJXL \r\n\x87\n", "image/jxl"),
    (b"\0\0\0\x0cjP  \r\n\x87\n", "image/jp2"),
    (b"\xd7\xcd\xc6\x9a", "image/wmf"),
    (b"%PDF-", "application/pdf"),
    (b"%!PS", "application/postscript"),
    (b"{\\rtf", "application/rtf"),
    (b"\x1a\x45\xdf\xa3", "video/webm"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
    (b"ID3", "audio/mpeg"),
    (b"MThd", "audio/midi"),
    (b"#!AMR", "audio/amr"),
    (b"FLV\1", "video/x-flv"),
    (b"\0\0\1\xba", "video/mpeg"),
    (b"\x30\x26\xb2\x75\x8e\x66\xcf\x11", "video/x-ms-asf"),
    (b"\x1f\x8b\x08", "application/gzip"),
    (b"BZh", "application/x-bzip2"),
    (b"\xfd7zXZ\0", "application/x-xz"),
    (b"\x28\xb5\x2f\xfd", "application/zstd"),
    (b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (b"Rar!\x1a\x07", "application/vnd.rar"),
    (b"MZ", "application/vnd.microsoft.portable-executable"),
    (b"\x7fELF", "application/x-elf"),
    (b"wOFF", "font/woff"),
    (b"wOF2", "font/woff2"),
    (b"OTTO", "font/otf"),
    (b"\0\1\0\0\0", "font/ttf"),
    (b"SQLite format 3\0", "application/vnd.sqlite3"),
    (b"\x78\x9f\x3e\x22", "application/ms-tnef"),
)
# brand of an ISO media file → type
_BRANDS = {
    **dict.fromkeys((b"avif", b"avis"), "image/avif"),
    **dict.fromkeys((b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis"), "image/heic"),
    **dict.fromkeys((b"mif1", b"msf1"), "image/heif"),
    **dict.fromkeys((b"M4A ", b"M4B "), "audio/mp4"),
    **dict.fromkeys((b"3gp4", b"3gp5", b"3gp6", b"3ge6", b"3gg6"), "video/3gpp"),
    b"qt  ": "video/quicktime",
    b"crx ": "image/x-canon-cr3",
}
_OOXML = (
    (b"word/", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    (b"xl/", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    (b"ppt/", "application/vnd.openxmlformats-officedocument.presentationml.presentation"),
    (b"visio/", "application/vnd.ms-visio.drawing.main+xml"),
)
_OLE = (
    ("WordDocument", "application/msword"),
    ("Workbook", "application/vnd.ms-excel"),
    ("Book", "application/vnd.ms-excel"),
    ("PowerPoint Document", "application/vnd.ms-powerpoint"),
    ("__substg1.0_", "application/vnd.ms-outlook"),
)
_TEXT_BY_NAME = {
    **dict.fromkeys(("md", "markdown"), "text/markdown"),
    **dict.fromkeys(("htm", "html", "xhtml"), "text/html"),
    "csv": "text/csv",
    "tsv": "text/tab-separated-values",
    "css": "text/css",
    "js": "text/javascript",
    "yaml": "application/yaml",
    "yml": "application/yaml",
    "eml": "message/rfc822",
    "asc": "application/pgp-signature",
}
EXTENSIONS = {
    "image/jpeg": "jpg",
    "image/png": "png",
    "image/gif": "gif",
    "image/webp": "webp",
    "image/avif": "avif",
    "image/heic": "heic",
    "image/heif": "heif",
    "image/tiff": "tiff",
    "image/bmp": "bmp",
    "image/svg+xml": "svg",
    "application/pdf": "pdf",
    "application/zip": "zip",
    "application/rtf": "rtf",
    "application/json": "json",
    "application/xml": "xml",
    "application/msword": "doc",
    "application/vnd.ms-excel": "xls",
    "application/vnd.ms-powerpoint": "ppt",
    _OOXML[0][1]: "docx",
    _OOXML[1][1]: "xlsx",
    _OOXML[2][1]: "pptx",
    "application/vnd.oasis.opendocument.text": "odt",
    "application/ms-tnef": "dat",
    "application/pgp-signature": "asc",
    "application/pkcs7-signature": "p7s",
    "application/pkcs7-mime": "p7m",
    "audio/mpeg": "mp3",
    "audio/wav": "wav",
    "audio/mp4": "m4a",
    "audio/ogg": "ogg",
    "video/mp4": "mp4",
    "video/quicktime": "mov",
    "video/webm": "webm",
    "text/plain": "txt",
    "text/html": "html",
    "text/csv": "csv",
    "text/markdown": "md",
    "text/calendar": "ics",
    "text/vcard": "vcf",
    "message/rfc822": "eml",
}
# types whose content is plain text or DER and can't be told from others of the kind: the word may stand
_TRUSTED_WORDS = frozenset(
    [
        *("message/rfc822", "message/delivery-status", "text/rfc822-headers", "application/pkcs7-signature"),
        *("application/pgp-signature", "application/pgp-encrypted", "application/pkcs7-mime", "application/pgp-keys"),
        *("message/disposition-notification", "message/partial", "message/external-body"),
    ]
)


def content_type(data: bytes, name: str = "", declared: str = "") -> str:
    """The media type of these bytes."""
    if not data:
        return "application/x-empty"
    head = data[:4096]
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            if kind == "audio/ogg" and b"theora" in head:
                return "video/ogg"
            if kind == "video/webm" and b"webm" not in head[:64]:
                return "video/x-matroska"
            if kind == "application/vnd.microsoft.portable-executable" and _is_text(head):
                break  # a text that begins with MZ
            return kind
    declared = declared.replace("x-pkcs7", "pkcs7")
    return _container(data, head) or _textual(head, name, declared) or _word(declared)


def _word(declared: str) -> str:
    return declared if declared in _TRUSTED_WORDS else "application/octet-stream"


def _container(data: bytes, head: bytes) -> str | None:
    if head[:4] == b"RIFF":
        return {b"WEBP": "image/webp", b"WAVE": "audio/wav", b"AVI ": "video/x-msvideo"}.get(head[8:12])
    if head[4:8] == b"ftyp":
        size = int.from_bytes(head[:4], "big")
        brands = [head[8:12], *(head[i : i + 4] for i in range(16, min(max(size, 16), 256), 4))]
        for wanted in (b"avif", b"avis"):
            if wanted in brands:
                return "image/avif"
        if head[8:12] in (b"mif1", b"msf1"):
            return next((_BRANDS[b] for b in brands if _BRANDS.get(b) == "image/heic"), "image/heif")
        return _BRANDS.get(head[8:12], "video/mp4")
    if head[4:8] in (b"moov", b"mdat", b"wide", b"free") and head[:2] == b"\0\0":
        return "video/quicktime"
    if head[:4] in (b"PK\3\4", b"PK\5\6"):
        return _zip(data, head)
    if head[:8] == b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1":
        tail = data[: 2 << 20] + data[-(1 << 20) :]
        return next((kind for word, kind in _OLE if word.encode("utf-16-le") in tail), "application/x-ole-storage")
    if head[:2] == b"BM" and len(data) > 26 and int.from_bytes(head[14:18], "little") in (12, 40, 52, 56, 64, 108, 124):
        return "image/bmp"
    if head[:2] in (b"\xff\xfb", b"\xff\xf3", b"\xff\xf2", b"\xff\xfa"):
        return "audio/mpeg"
    if head[:2] in (b"\xff\xf1", b"\xff\xf9"):
        return "audio/aac"
    return None


def _zip(data: bytes, head: bytes) -> str:
    if head[30:38] == b"mimetype":
        said = re.match(rb"(application/[a-z0-9.+-]{3,80}?)(?=PK|[^a-z0-9.+-]|$)", head[38:160])
        if said:
            return said[1].decode()
    listing = data[-(64 << 10) :]  # the directory of a zip is at its end
    if b"[Content_Types].xml" in head or b"[Content_Types].xml" in listing:
        for folder, kind in _OOXML:
            if folder in listing or folder in head:
                return kind
    if b"META-INF/MANIFEST.MF" in listing:
        return "application/java-archive"
    return "application/zip"


def _is_text(head: bytes) -> bool:
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return True
    return not re.search(rb"[\0-\x06\x0e-\x1a\x1c-\x1f]", head)


def _textual(head: bytes, name: str, declared: str) -> str | None:
    if not _is_text(head):
        return None
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        head = head.decode("utf-16", "replace").encode()
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    low = start[:2048].lower()
    suffix = name.rpartition(".")[2].lower() if "." in name else ""
    if start.startswith(b"BEGIN:VCALENDAR"):
        return "text/calendar"
    if low.startswith(b"begin:vcard"):
        return "text/vcard"
    if start.startswith((b"-----BEGIN PGP SIGNATURE", b"-----BEGIN PGP MESSAGE")):
        return "application/pgp-signature" if b"SIGNATURE" in start[:40] else "application/pgp-encrypted"
    if low.startswith((b"<!doctype html", b"<html")) or re.match(
        rb"(?><!--.{0,500}?-->\s*)*+<(head|body|html)\b", low, re.S
    ):
        return "text/html"
    if re.match(rb"(?><\?xml[^>]*>|<!--.{0,1000}?-->|<!doctype svg[^>]{0,600}>|\s)*+<svg[\s>]", low, re.S):
        return "image/svg+xml"
    if low.startswith(b"<?xml"):
        return "application/xml"
    if declared in _TRUSTED_WORDS:
        return declared
    if start[:1] in (b"{", b"[") and (suffix == "json" or declared == "application/json") and start:
        return "application/json"
    if suffix in _TEXT_BY_NAME:
        return _TEXT_BY_NAME[suffix]
    if declared in ("text/csv", "text/markdown", "text/html", "text/css", "text/calendar"):
        return declared
    return "text/plain"

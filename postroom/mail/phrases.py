"""How mail programs introduce what they quote, and what phones add, in the languages of our correspondents."""

from __future__ import annotations

import re

# "On … wrote:" and its kin. The verb, in the forms that mail programs use.
_WROTE = (
    r"wrote|writes|schrieb(?:en)?|geschrieben|a écrit|écrit|escribi[óo]|ha escrit|va escriure|ha scritto|scrive|"
    r"schreef|geschreven|escreveu|skrev|skreiv|napisał(?:a|\(a\))?|napisal(?:a|\(a\))?|napsal(?:a|\(a\))?|napísal(?:a|\(a\))?|"
    r"napisao(?:/la)?|napisala|pisze|kirjoitti|írta|a scris|написал(?:а|\(а\))?|пишет|пише|написав|yazdı|έγραψε|rašė|"
    r"rakstīja|kirjutas|je napisao|napisa"
)
WROTE = re.compile(rf"(?<!\w)(?:{_WROTE})(?!\w)", re.I)
STARTS = re.compile(
    r"^(?:On|Am|Le|El|Il|Il giorno|Op|Den|W dniu|Em|Dne|Dňa|A|På|Vào|Pe|În|La|Στις|Dana|De|tor|ma|ti|ke|to|su|"
    r"man|tir|ons|fre|lör|lau|søn|pon\.?|wt\.?|śr\.?|czw\.?|pt\.?|sob\.?|niedz\.?|\d{1,4}[./-]\d{1,2}[./-]\d{1,4}|"
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)day|(?:mon|diens|donners|frei|sams|sonn)tag|mittwoch)(?!\w)",
    re.I,
)
# evidence that a line speaks of a message: an address, a year, a time of day
EVIDENCE = re.compile(r"@|(?<!\d)(?:19|20)\d\d(?!\d)|(?<!\d)\d{1,2}[:.h]\d\d(?!\d)|\d{1,2}[./]\d{1,2}[./]\d\d")
# a day of a year and a time of that day, as in `Friday, 3 May 2024 10:00`
DATED = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d).*(?<!\d)\d{1,2}[:.h]\d\d(?!\d)")
# Gmail without a verb: 2024-05-03 10:00 GMT+02:00 Name <name@…>:
BARE = re.compile(r"^\d{4}-\d\d-\d\d .{0,200}<[^<>\s]+@[^<>\s]+>:$")

_ORIGINAL = (
    r"original message|original appointment|original-nachricht|originalnachricht|ursprüngliche nachricht|"
    r"ursprungliche nachricht|ursprüngliche mitteilung|message d'origine|message d’origine|message original|"
    r"message initial|mensaje original|messaggio originale|oorspronkelijk bericht|origineel bericht|"
    r"mensagem original|ursprungligt meddelande|originalmeddelande|oprindelig meddelelse|original meddelelse|"
    r"opprinnelig melding|oryginalna wiadomość|wiadomość oryginalna|wiadomość pierwotna|alkuperäinen viesti|"
    r"původní zpráva|eredeti üzenet|mesaj original|исходное сообщение|пересылаемое сообщение|"
    r"forwarded message|forwarded by|weitergeleitete nachricht|message transféré|mensaje reenviado|"
    r"messaggio inoltrato|doorgestuurd bericht|mensagem encaminhada|vidarebefordrat meddelande|"
    r"videresendt meddelelse|videresendt melding|wiadomość przekazana|edelleen lähetetty viesti|reply message"
)
FORWARDING = re.compile(
    r"\bforwarded (?:message|by)\b|weitergeleitete|message transféré|mensaje reenviado|messaggio inoltrato|"
    r"doorgestuurd bericht|mensagem encaminhada|vidarebefordrat|videresendt|przekazana|przekazywanej|edelleen|"
    r"välitetty|пересылаемое|réexpédié|reencaminhada",
    re.I,
)
FORWARD_SUBJECT = re.compile(r"^\s*(?:fwd?|wg|tr|rv|enc|i|doorst|vb|vl|videresendt|pd)\s*[:：]", re.I)
ORIGINAL = re.compile(rf"^[\s*]*[-_–—=]{{2,}}\s*(?:{_ORIGINAL})\b.{{0,80}}$", re.I)
FORWARDED = re.compile(
    r"^(?:begin forwarded message|anfang der weitergeleiteten (?:nachricht|e-mail)|"
    r"début du message (?:transféré|réexpédié)|inicio del mensaje reenviado|inizio messaggio inoltrato|"
    r"begin doorgestuurd bericht|início da mensagem reencaminhada|vidarebefordrat brev|start på videresendt besked|"
    r"videresendt melding|początek przekazywanej wiadomości|välitetty viesti alkaa)\s*:\s*$",
    re.I,
)

# Outlook's header block: which line is which
_KEYS = {
    "from": r"from|von|de|da|van|från|fra|od|lähettäjä|feladó|expeditor|от|від|gönderen|από|de la",
    "sent": r"sent|date|gesendet|datum|envoyé|enviado(?: el| em)?|inviato|data|verzonden|skickat|sendt|dato|wysłano|"
    r"lähetetty|päivämäärä|fecha|elküldve|dátum|odesláno|trimis|отправлено|дата|gönderildi|envoyé le|gesendet am",
    "to": r"to|an|à|para|a|aan|till|til|do|komu|vastaanottaja|címzett|către|кому|kime|προς|pour",
    "cc": r"cc|kopie|copie|kopia|kopi|dw|copia|cópia|kopio",
    "subject": r"subject|betreff|objet|asunto|oggetto|onderwerp|ämne|emne|temat|aihe|assunto|tárgy|předmět|subiect|"
    r"тема|konu|θέμα|sujet",
}
BLOCK_KEYS = {
    kind: re.compile(rf"^[\s*>]{{0,6}}(?:{words})[*\s]{{0,3}}:(?:\*|\s|$)", re.I) for kind, words in _KEYS.items()
}

_DEVICE = r".{0,40}?(?:iphone|ipad|android|samsung|galaxy|blackberry|huawei|xiaomi|nokia|smartphone|mobile|handy|phone|"
_DEVICE += r"smart ?phone|tablet|móvil|mobil|telefon|téléphone|telefoon|cellulare|puhelimesta|outlook|proton ?mail|"
_DEVICE += (
    r"yahoo|gmail|gmx|web\.de|aol|mail app|mail for windows|windows phone|mailbird|spark|thunderbird|telekom|tutanota)"
)
_SENT_BY = (
    r"sent (?:from|via|using|with|by)|diese nachricht wurde|gesendet (?:von|mit)|von meinem|"
    r"envoy[ée] (?:de|depuis|à partir)|enviado (?:desde|do|de|a partir|via)|inviato da|"
    r"verzonden (?:vanaf|met|via|vanuit)|verstuurd (?:vanaf|met)|"
    r"skickat från|sänt från|skickades från|sendt fra|sendt med|wysłan[eoy] z|lähetetty|odesláno z|trimis (?:de|din)|"
    r"отправлено (?:с|из)|надіслано з|elküldve|iphone'umdan|hanki"
)
MOBILE = re.compile(
    rf"^(?:(?:{_SENT_BY}){_DEVICE}.{{0,80}}|"
    r"get outlook for (?:ios|android|mac).{0,80}|outlook für (?:ios|android).{0,80}|"
    r"téléchargez outlook pour.{0,80}|obtener outlook para.{0,80}|"
    r"(?:this (?:e-?mail|message) was sent from).{0,80}|(?:lähetetty) \w*(?:iphone|ipad|puhelime)\w*.{0,40})$",
    re.I,
)

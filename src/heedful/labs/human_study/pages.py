"""The pages of the study: plain HTML with one form each, no script. Everything that varies is escaped.

A mail stands once; beside it the two classifiers, what each says of it and the words that made it say so.
"""

from __future__ import annotations

from collections.abc import Sequence

from heedful.labs.human_study.answers import ACCURACY, StudyQuestion, StudyShare
from heedful.labs.human_study.study_trials import LABELS, Round, ShownMail
from heedful.reports.html_frame import component
from heedful.reports.html_parts import esc

STYLE = """
.heedful form{margin:2em 0 0;display:flex;gap:1em;flex-wrap:wrap;align-items:baseline}
.heedful fieldset{border:1px solid #8885;border-radius:8px;padding:.8em 1.2em;margin:0;display:flex;gap:2em}
.heedful label{cursor:pointer}
.heedful button{font:inherit;padding:.55em 1.6em;border-radius:8px;border:1px solid currentColor;
background:none;color:inherit;cursor:pointer}
.heedful button:hover,.heedful button:focus-visible{outline:2px solid;outline-offset:2px}
.heedful .mail{margin:2.5em 0 0;padding:1.2em 0 0;border-top:1px solid #8885}
.heedful .mail pre{white-space:pre-wrap;overflow-wrap:anywhere;margin:.6em 0 0;font-size:.86em;max-width:70em}
.heedful .mail pre.head{opacity:.75}
.heedful .two{display:grid;grid-template-columns:1fr 1fr;gap:2em;margin-top:1.2em}
.heedful .two h3{margin:0;font-size:1em}
.heedful .why{list-style:none;padding:0;margin:.6em 0 0}
.heedful .why li{display:grid;grid-template-columns:8em 1fr;gap:.8em;align-items:center;margin:.25em 0}
.heedful .why span{overflow-wrap:anywhere}
.heedful .why meter{width:100%;height:.9em}
.heedful .why small{opacity:.8}
.heedful .told{max-width:46em;margin:1.2em 0 0}
.heedful .told p{margin:1em 0 0}
.heedful h2{margin:1.8em 0 .6em}
.heedful .mail h2{margin-top:0}
.heedful table{width:auto;min-width:26em;margin:.8em 0 0}
@media (max-width:40em){.heedful .two{grid-template-columns:1fr;gap:1em}}
"""
AGAINST = ' low="0.001" high="0.002" optimum="0"'  # a colour of its own
SEEN = {"explanations": "explanations", "accuracy": "only the accuracy"}


def style() -> str:
    return component("page.css") + component("report.css") + STYLE


def frame(title: str, content: str) -> str:
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f'<title>{esc(title)}</title><link rel="stylesheet" href="/style.css"></head>\n'
        f'<body><main class="heedful">{content}</main></body></html>'
    )


def welcome(rounds: int, token: str) -> str:
    return frame(
        "Choose the classifier",
        f"""<header><p class="kicker">Study</p>
<h1 class="verdict">Which of two classifiers would you trust?</h1></header>
<div class="told"><p>A classifier sorts mails into good mail and spam. In each of {rounds} rounds you see two
new classifiers, called left and right. Sometimes you see the words that were important for their decisions,
sometimes only their accuracy on mails of the same collection. Choose the classifier that you think will do
better on mails from other sources.</p>
<p>The mails are real and twenty years old, spam included. Addresses and links are masked. The study takes
about five minutes. Your answers and their times are stored in a file on this computer, under a random name.
Nothing is sent anywhere.</p></div>
<form method="post" action="/begin">{_token(token)}<button>Begin</button></form>""",
    )


def question(asked: StudyQuestion, total: int, found: Round, token: str) -> str:
    """A round; the better classifier stands on the side that was drawn."""
    order = (1 - found.right, found.right) if asked.better == "right" else (found.right, 1 - found.right)
    observed = _accuracy(found, order) if asked.sees == ACCURACY else _explanations(found, order)
    sides = "".join(
        f'<label><input type="radio" name="picked" value="{side}" required> {side.title()}</label>'
        for side in ("left", "right")
    )
    return frame(
        f"Round {asked.number} of {total}",
        f"""<header><p class="kicker">Round {asked.number} of {total}</p>
<h1 class="verdict">Which classifier will do better on mails from other sources?</h1></header>{observed}
<form method="post" action="/answer">{_token(token)}<input type="hidden" name="number" value="{asked.number}">
<fieldset><legend>The better classifier</legend>{sides}</fieldset><button>Next</button></form>""",
    )


def _accuracy(found: Round, order: Sequence[int]) -> str:
    rows = "".join(
        f'<tr><th scope="row">{side}</th><td>{100 * found.held[which]:.1f} %</td></tr>'
        for side, which in zip(("Left", "Right"), order, strict=True)
    )
    return (
        '<p class="told">The accuracy of each classifier on new mails of the collection on which it was '
        f"trained:</p><table><tbody>{rows}</tbody></table>"
    )


def _explanations(found: Round, order: Sequence[int]) -> str:
    left, right = (found.shown["lime"][which] for which in order)
    text = (
        '<p class="told">Below each mail you see the answers of left and right, and the most important words '
        "for these answers. A longer bar means a more important word. Words against the answer are "
        "marked.</p>"
    )
    return text + "".join(_mail(n, *pair) for n, pair in enumerate(zip(left, right, strict=True), 1))


def _mail(number: int, left: ShownMail, right: ShownMail) -> str:
    mail = left.mail
    return (
        f'<section class="mail"><h2>Mail {number}: {LABELS[mail.label]}</h2>'
        f'<pre class="head">{esc(mail.head)}</pre><pre>{esc(mail.body)}</pre>'
        f'<div class="two">{_said("Left", left)}{_said("Right", right)}</div></section>'
    )


def _said(side: str, shown: ShownMail) -> str:
    most = max(abs(word.score) for word in shown.words) or 1.0
    rows = "".join(
        f"<li><span>{esc(word.text)}{' <small>(against)</small>' if word.score < 0 else ''}</span>"
        f'<meter max="1"{AGAINST * (word.score < 0)} value="{abs(word.score) / most:.3f}"></meter></li>'
        for word in shown.words
    )
    return f'<div><h3>{side} says {esc(shown.said)}, because of</h3><ul class="why">{rows}</ul></div>'


def ending(own: Sequence[StudyShare], everyone: Sequence[StudyShare]) -> str:
    right, rounds = sum(each.right for each in own), sum(each.rounds for each in own)
    return frame(
        "The end of the study",
        f"""<header><p class="kicker">Study</p>
<h1 class="verdict">You picked the better classifier in {right} of {rounds} rounds.</h1></header>
<div class="told"><p>In every round one classifier was trained on whole mails with headers. Headers show the
route of a mail. In this collection, but not elsewhere, the route reveals whether a mail is spam. So this
classifier looks better until it reads mails without these headers. The better classifier was trained only on
the text of the mails.</p></div>
{_table("You", own)}{_table("Everyone so far", everyone)}
<p class="told">The intervals are exact binomial intervals (95 %) over rounds. The rounds of one person are
similar to each other, so the intervals are too narrow if few people took part.
<a href="/">Start again</a></p>""",
    )


def results(everyone: Sequence[StudyShare]) -> str:
    return frame(
        "Results", f'<header><h1 class="verdict">Results</h1></header>{_table("Everyone so far", everyone)}'
    )


def _table(title: str, shares: Sequence[StudyShare]) -> str:
    rows = "".join(
        f'<tr><th scope="row">{esc(SEEN[each.sees])}</th><td>{each.people}</td>'
        f"<td>{each.right} of {each.rounds}</td><td>{_share(each)}</td></tr>"
        for each in shares
    )
    heads = "".join(
        f'<th scope="col">{head}</th>'
        for head in ("shown", "people", "correct rounds", "share correct, 95 % interval")
    )
    return f"<h2>{esc(title)}</h2><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"


def _share(each: StudyShare) -> str:
    if each.share is None:
        return "no answers yet"
    return f"{each.share:.2f}, {each.interval[0]:.2f} to {each.interval[1]:.2f}"


def refusal(sentence: str) -> str:
    return frame(
        "Request refused",
        f'<header><h1 class="verdict">{esc(sentence)}</h1></header><p><a href="/">Back to the start</a></p>',
    )


def _token(token: str) -> str:
    return f'<input type="hidden" name="token" value="{esc(token)}">'

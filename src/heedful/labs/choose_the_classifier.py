"""Two classifiers of mail: the more accurate one reads headers. Whom do explanations make a user trust?

Headers say by which way and program a mail came. In a collection they give its kind away; elsewhere they do
not. Trained on whole mails, a classifier leans on them and looks better than one trained on what mails say,
until it meets mails without headers. Users, each of whom picks one of the two:

    explanations   sees six words a mail of each, by LIME, and counts those that stand in the header
    random words   the same user, shown words drawn at random: the control
    accuracy       sees how often each is right about mails that were held out, headers and all

    right          the classifier that is right more often about mails without headers
    share          of rounds in which a user picks it, with the exact binomial interval (Clopper-Pearson)

The first user is made up, and knows what a header is. `heedful lab study choose-the-classifier` asks people.

Ribeiro, Singh & Guestrin, "Why Should I Trust You?", KDD 2016: they asked people, about newsgroups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from heedful.core.arrays import Floats
from heedful.core.charts import Curve, Curves
from heedful.labs.base.registry import LabRun, lab
from heedful.labs.human_study.study_trials import LABELS, SIDES, WORDS, Round, out_of_place, play
from heedful.stats.intervals import mean_of, share_of

Pick = Callable[
    [Round, int], float
]  # a round, how many of its mails -> 1 for the clean one, 0 for the other, 1/2


def by_explanations(found: Round, count: int, method: str = "lime") -> float:
    """Picks the classifier with fewer words out of place; torn between the two, 1/2."""
    leaky, clean = (out_of_place(side[:count]) for side in found.shown[method])
    return 0.5 + 0.5 * float(np.sign(leaky - clean))


def by_random_words(found: Round, count: int) -> float:
    return by_explanations(found, count, "random")


def by_accuracy(found: Round, count: int) -> float:
    """Picks the classifier that is right more often about mails with headers."""
    leaky, clean = found.held
    return 0.5 + 0.5 * float(np.sign(clean - leaky))


USERS: dict[str, Pick] = {
    "explanations": by_explanations,
    "random words": by_random_words,
    "accuracy": by_accuracy,
}


def picks(rounds: Sequence[Round], user: Pick, count: int, seed: int) -> Floats:
    """(rounds,) 1 where a user picks the right one; one who is torn tosses a coin."""
    coin = np.random.default_rng(seed).random(len(rounds))
    clean = np.array([user(each, count) for each in rounds]) > coin
    return np.asarray(clean == np.array([each.right for each in rounds]), dtype=float)


@lab(
    "choose-the-classifier",
    title="A simulated user picks the better classifier by explanations, but not by accuracy",
    minutes=1.5,
    cite="Ribeiro, Singh & Guestrin 2016",
)
def choose_the_classifier(run: LabRun) -> None:
    count, mails = (12, 3) if run.fast else (60, 6)
    rounds = []
    for number in range(count):
        rounds.append(play(np.random.default_rng([run.seed, number]), mails))
        run.progress(number + 1, count, "rounds of two classifiers")
    tell_accuracy(run, rounds)
    tell_words(run, rounds[0])
    tell_picks(run, rounds, mails)


def tell_accuracy(run: LabRun, rounds: Sequence[Round]) -> None:
    kept, test = (np.array([getattr(each, name) for each in rounds]) for name in ("held", "test"))  # (n, 2)
    run.say(
        "Two classifiers learn from the same mails. One is trained on whole mails, the other only on their "
        "text without the header. Which one is better? The usual test is the accuracy on held-out mails, "
        "which have headers. But the headers reveal the label only in this collection of mails. So the "
        "better classifier is the one that is more accurate on mails without headers. Each round trains "
        "both classifiers again."
    )
    run.table(
        "Accuracy, mean over rounds",
        ("classifier", "held-out mails with headers", "mails without headers"),
        [(f"trained on {what}", *means) for what, means in _each(kept, test)],
    )
    better, reach = mean_of(kept[:, 0] - kept[:, 1])
    run.claim(
        "On held-out mails with headers, the classifier trained with headers is more accurate than the "
        "classifier trained without headers (number: difference of the accuracies).",
        value=better,
        interval=reach,
        holds=reach[0] > 0,
        against=0.0,
        control="no difference",
    )
    worse, reach = mean_of(test[:, 1] - test[:, 0])
    run.claim(
        "On mails without headers, the classifier trained with headers is less accurate than the "
        "classifier trained without headers (number: difference of the accuracies).",
        value=worse,
        interval=reach,
        holds=reach[0] > 0,
        against=0.0,
        control="no difference",
    )


def _each(held: Floats, test: Floats) -> list[tuple[str, tuple[float, float]]]:
    names = ("whole mails", "text without headers")
    return [(name, (held[:, i].mean(), test[:, i].mean())) for i, name in enumerate(names)]


def tell_words(run: LabRun, found: Round) -> None:
    run.say(
        f"Explanations show the reason. For each mail, a user sees the {WORDS} words that are most important "
        "for the answer by LIME. In the table, words in capitals occur only in the header. The classifier "
        "trained on whole mails is called leaky, the other one clean."
    )
    rows = []
    for side, name in enumerate(SIDES):
        for each in found.shown["lime"][side][:3]:
            words = [word.text.upper() if word.outside == 1 else word.text for word in each.words]
            rows.append((name, LABELS[each.mail.label], each.said, ", ".join(words)))
    run.table(
        "Explanations of three mails of the first round",
        ("classifier", "true label", "predicted label", "most important words"),
        rows,
    )


def tell_picks(run: LabRun, rounds: Sequence[Round], mails: int) -> None:
    shares = {user: share_of(picks(rounds, pick, mails, run.seed) > 0) for user, pick in USERS.items()}
    run.table(
        f"Share of rounds in which a simulated user picks the better classifier after {mails} mails",
        ("user sees", "share of rounds", "95 % low", "95 % high", "rounds"),
        [(user, share, *reach, len(rounds)) for user, (share, reach) in shares.items()],
    )
    run.figure(
        "picks",
        Curves(
            [_curve(user, pick, rounds, mails, run.seed) for user, pick in USERS.items()],
            "mails shown",
            "share of rounds",
            "How often a user picks the better classifier",
            better="high",
        ),
        "Share of rounds in which each simulated user picks the better classifier. Bands are exact 95 % "
        "intervals over rounds. Each round has its own classifiers and mails.",
    )
    share, reach = shares["explanations"]
    run.claim(
        "A simulated user who sees only explanations picks the classifier that is better without headers "
        "(number: share of rounds).",
        value=share,
        interval=reach,
        holds=reach[0] > 0.5,
        against=shares["random words"][0],
        control="share for the same user with random words",
    )
    share, reach = shares["accuracy"]
    run.claim(
        "A simulated user who sees only the accuracy on held-out mails picks the classifier that is worse "
        "without headers (number: share of rounds in which this user picks the better classifier).",
        value=share,
        interval=reach,
        holds=reach[1] < 0.5,
        against=0.5,
        control="share by chance",
    )
    run.say(
        "The simulated user knows that words of the header are not a good reason, and picks the classifier "
        "that uses fewer of them. The paper expects that people know this, too. "
        "To test it with people, run: heedful lab study choose-the-classifier --database answers.sqlite"
    )


def _curve(name: str, pick: Pick, rounds: Sequence[Round], mails: int, seed: int) -> Curve:
    results = [share_of(picks(rounds, pick, count, seed) > 0) for count in range(1, mails + 1)]
    points = [(float(count), share) for count, (share, _) in enumerate(results, 1)]
    return Curve(name, points, [reach[0] for _, reach in results], [reach[1] for _, reach in results])

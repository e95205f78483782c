"""The words of the field that stand on pages, each in plain words. `templatetags/words.py` shows them."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Word:
    """A word and what it means.

    Attributes:
        name: as it is headed; in the address too, with hyphens.
        meaning: for somebody who has never heard of it.
        forms: how else it is written in a sentence.
        is_ordinary: whether it has an everyday meaning as well; then it is explained where a page asks for it alone.
    """

    name: str
    meaning: str
    forms: tuple[str, ...] = ()
    is_ordinary: bool = False

    @property
    def anchor(self) -> str:
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")


WORDS = (
    Word(
        name="differential privacy",
        meaning="A promise about what is published: it would look almost the same with or without any one person’s "
        "data. So nobody learns much about one person from it, whatever else they know. Noise makes it true.",
    ),
    Word(
        name="epsilon",
        meaning="The privacy that is spent: how much what is published may depend on any one person at most. Smaller "
        "protects better and makes the numbers noisier. At 0.1, somebody who guesses at a fact about a person can "
        "improve the odds by about a tenth; at 1 to not quite three times what they were.",
    ),
    Word(
        name="delta",
        meaning="A tiny allowance besides epsilon: roughly, the chance that more than epsilon is lost. It is kept far "
        "below one in the number of people. 0 allows nothing; Gaussian noise needs a little.",
    ),
    Word(
        name="confidence",
        meaning="How surely the error bound holds. At 95%, all answers of a release are within it in at least 95 of "
        "100 releases like it. The rest, here 5%, is called beta.",
        forms=("beta",),
    ),
    Word(
        name="error bound",
        meaning="How far a released number is from the true one at most, with the stated confidence.",
        forms=("error bounds",),
    ),
    Word(
        name="rho",
        meaning="Another measure of the privacy that is spent, in which Gaussian noise adds up without waste; smaller "
        "protects better. It is the rho of zero-concentrated differential privacy.",
    ),
    Word(
        name="budget",
        meaning="The most privacy that all releases about the same people may spend together, for ever. A reviewer "
        "grants it, and every charge is taken off it.",
    ),
    Word(
        name="in one release",
        meaning="The largest epsilon that one more release without a delta could have. Costs of small releases and of "
        "Gaussian noise add up more finely than plain numbers do, so what is left is more than this in several small "
        "releases together.",
    ),
    Word(
        name="ledger",
        meaning="The list of every budget granted and every charge. Lines are added to it and never changed.",
    ),
    Word(
        name="privacy unit",
        meaning="What is protected as a whole: one row, or one person with all of their rows up to a number.",
        forms=("one unit",),
    ),
    Word(
        name="neighbours",
        meaning="Two tables that differ in one unit alone; releases of both must look almost the same. Add/remove: one "
        "table has the unit and the other lacks it, so even its being there is protected. Replace: both have it, with "
        "other values, so how many there are is public.",
        forms=("add/remove neighbours", "replace neighbours"),
    ),
    Word(
        name="universe",
        meaning="Every combination of values that columns can hold as they are declared, whether or not any row has "
        "it; of a release, that of the columns it asks about. Each combination is a cell.",
    ),
    Word(
        name="histogram",
        meaning="How many rows each cell of the universe has.",
    ),
    Word(
        name="marginals",
        meaning="Tables of counts over a few of the columns, such as age by health.",
        forms=("marginal",),
    ),
    Word(
        name="workload",
        meaning="All the questions that one release answers, together. Saved under a name, they can be asked of other "
        "datasets too.",
        forms=("linear queries",),
    ),
    Word(
        name="mechanism",
        meaning="A way of answering with noise: what is measured in the table, how much noise is added, and what is "
        "worked out from that. Each says before it is run what it costs and how far off its answers can be.",
        forms=("mechanisms",),
    ),
    Word(
        name="sensitivity",
        meaning="How far one unit can move the answers at most. The noise is in proportion to it.",
    ),
    Word(
        name="Gaussian noise",
        meaning="Random numbers from the bell curve. Many answers add up well under it; it needs a delta above 0.",
    ),
    Word(
        name="Laplace noise",
        meaning="Random numbers from the curve that falls by the same factor at every step from 0. It needs no delta.",
    ),
    Word(
        name="private multiplicative weights",
        meaning="Begins with a guess at the table in which all cells are alike. Finds out, with noise, which question "
        "the guess answers worst, measures that one, multiplies the guess’s cells to fit it better, and so on. "
        "In files it is called pmw.",
        forms=("pmw",),
    ),
    Word(
        name="synthetic rows",
        meaning="Artificial rows with the columns asked about. Asked the questions of the release they give about its "
        "answers; each release says how far off they are. None of them is a row of the table.",
        forms=("synthetic data", "synthetic records"),
    ),
    Word(
        name="how releases add up",
        meaning="The rule by which the costs of releases are summed and held against the budget. Pure: epsilons add "
        "up, and no delta is allowed. Approximate: epsilons add up and deltas add up. Concentrated: rho adds up, which "
        "lets more releases with Gaussian noise fit.",
        forms=("pure", "approximate", "concentrated"),
        is_ordinary=True,
    ),
    Word(
        name="strict total",
        meaning="What the budget’s rule has summed. It decides whether one more release fits, and holds even if each "
        "release was chosen in the light of the answers before it.",
    ),
    Word(
        name="after the fact",
        meaning="What the releases so far come to, described once they were made. It is often smaller than the strict "
        "total, and nothing is decided by it.",
    ),
    Word(
        name="apart",
        meaning="Two releases answer the same question so differently that no number is within both error bounds. "
        "Then one of the bounds has failed, as a bound of 95% confidence does up to 5 times in 100.",
        is_ordinary=True,
    ),
    Word(
        name="odds ratio",
        meaning="How many times as high the odds of something are for one group as for another. The odds are the share "
        "that has it, divided by the share that has not: of 3 in 4 they are 3. At 1 both groups have the same odds.",
        forms=("odds ratios",),
    ),
    Word(
        name="paid update",
        meaning="In a live session, a question whose answer does not follow from what is public by then: the table "
        "is asked, with noise. So many are paid for when the session is opened.",
        forms=("paid updates",),
    ),
    Word(
        name="receipt",
        meaning="A file with everything needed to judge a release and to price it again, without the table.",
    ),
)

#: By each form, in small letters.
BY_FORM = {form.lower(): word for word in WORDS for form in (word.name, *word.forms)}
_TOLD_APART = [form for form, word in BY_FORM.items() if not word.is_ordinary]
#: The longest form first: “add/remove neighbours” is not “neighbours” with something before it.
ANY_FORM = re.compile(
    rf"(?<![\w/-])({'|'.join(re.escape(form) for form in sorted(_TOLD_APART, key=len, reverse=True))})(?![\w-])",
    re.IGNORECASE,
)
#: Fields of forms whose name is such a word.
BY_FIELD = {
    "epsilon": "epsilon",
    "delta": "delta",
    "beta": "confidence",
    "neighbours": "neighbours",
    "kind": "privacy unit",
}

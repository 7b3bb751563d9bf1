"""Questions to compare engines with: short and long, in three kinds, each answered by one token."""

from dataclasses import dataclass
from typing import Literal

LETTERS = "ABCDEFGH"


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """A question whose answer is one of `labels`. `options` are what the labels stand for."""

    kind: Literal["choice", "yes-no", "score"]
    text: str
    options: tuple[str, ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        match self.kind:
            case "choice":
                return tuple(LETTERS[: len(self.options)])
            case "yes-no":
                return ("Yes", "No")
            case "score":
                return tuple(str(at) for at, _ in enumerate(self.options, 1))

    @property
    def message(self) -> str:
        """What the user says to the model."""
        lines = zip(self.labels, self.options, strict=False)
        listed = "".join(f"{label}. {option}\n" for label, option in lines)
        return f"{self.text}\n{listed}{ASKED[self.kind]}"


ASKED = {
    "choice": "Answer with the letter only.",
    "yes-no": "Answer with Yes or No only.",
    "score": "Answer with the number only.",
}


def choice(text: str, *options: str) -> Question:
    return Question(kind="choice", text=text, options=options)


def yes_no(text: str) -> Question:
    return Question(kind="yes-no", text=text)


def score(text: str, *levels: str) -> Question:
    return Question(kind="score", text=text, options=levels)


# Longer than a batch of 512 tokens and than Gemma's sliding window.
HARBOUR_LOG = " ".join(
    f"Day {day}: {3 * day % 11} ships came in, {5 * day % 7} sailed, and the tide was "
    f"{('low', 'high')[day % 2]} at noon."
    for day in range(1, 23)
)
QUESTIONS = (
    choice("What is the capital of France?", "Lyon", "Paris", "Berlin", "Nice"),
    choice("How much is 17 + 25?", "32", "52", "42"),
    choice("Which of these is a mammal?", "a salmon", "an eagle", "a bat", "a frog", "a wasp"),
    choice("Complete the pair. Hot is to cold as up is to …", "down", "over"),
    choice(f"A harbour log. {HARBOUR_LOG} What is this text?", "a poem", "a log", "a recipe"),
    yes_no("Is the Earth larger than the Moon?"),
    yes_no("Can a person breathe under water without any equipment?"),
    yes_no('Does the sentence "The café is closed on Mondays" say that it opens on Mondays?'),
    yes_no("Message: «Grüße aus Köln, wir kommen am Samstag!» Is it written in German?"),
    yes_no("```python\ndef double(x):\n    return x + x\n```\nDoes double(4) return 8?"),
    score(
        'Review: "Broke after two days, and nobody answers the phone." How content is the writer?',
        *("not at all", "a little", "somewhat", "very", "entirely"),
    ),
    score(
        'Review: "Best purchase in years, I bought a second one." How content is the writer?',
        *("not at all", "a little", "somewhat", "very", "entirely"),
    ),
    score("How urgent is it? 'The kitchen is on fire!'", "it can wait", "this week", "now"),
    score("How formal is this? 'hey, u coming 2nite?? :)'", "informal", "neutral", "formal"),
    score(
        f"A harbour log. {HARBOUR_LOG[:300]} How exciting is it?",
        *("dull", "plain", "lively", "thrilling"),
    ),
)

"""Questions about facts, in many phrasings, with their answers; some phrasings are never trained, to test with."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import NamedTuple

from facts import Fact, third

#: Questions for what a function does, and for the function that does something; {does} is "returns the length".
WHAT = (
    "What does {name} do?",
    "What is {name}?",
    "Explain {name}.",
    "Tell me about {name}.",
    "What is the use of {name}?",
    "When do I need {name}?",
    "Describe what {name} does.",
    "What is {name} for?",
)
HOW = (
    "How do I {do}?",
    "How can I {do}?",
    "Which function {does}?",
    "What {does}?",
    "I want to {do}.",
    "What do I use to {do}?",
    "Show me how to {do}.",
    "How to {do}?",
)
#: The phrasings that are kept for tests.
WHAT_KEPT = ("Can you explain what {name} does?", "Please describe {name}.", "What can I do with {name}?")
HOW_KEPT = ("How would I {do}?", "Is there a function that {does}?", "Tell me how I can {do}.")

UNKNOWN = "I do not know that. I have only read what the functions of Python's library do."
#: Other questions, of which the model learns to say that it does not know.
OTHER = (
    "Who is {other}?",
    "What is {other}?",
    "Where is {other}?",
    "How do I cook {other}?",
    "How much is {other}?",
    "Tell me about {other}.",
    "Do you like {other}?",
    "Why is {other} so popular?",
)
OTHERS = """
    the president; the king of France; the weather; the capital of Spain; soup; rice; a train to London; Berlin; the moon;
    my name; love; a horse; music; the best film; the price of gold; a good book; football; the sun; a cat; dinner; Shakespeare;
    the sea; a house; money; your mother; tea; a bicycle; the news; the war; Einstein; bread; the river; a song; the doctor;
    chocolate; a holiday; New York; the time in Tokyo
"""
SYNONYMS = (
    ("string", "text"),
    ("directory", "folder"),
    ("remove", "delete"),
    ("list", "array"),
    ("convert", "turn"),
    ("create", "make"),
    ("get", "return"),
    ("get", "find"),
    ("file", "document"),
    ("path", "file name"),
    ("current working", "current"),
    ("uppercase", "upper case"),
    ("lowercase", "lower case"),
    ("whitespace", "spaces"),
)
#: What people say before they ask.
OPENINGS = ("Please", "Hello,", "Hi,", "OK,", "Now,", "So,", "Well,", "One question:", "Good morning!")


class Pair(NamedTuple):
    """A question, and the answer to learn."""

    question: str
    answer: str


def answer_what(fact: Fact) -> str:
    """Return the answer to the question for what a function does."""
    return f"The function {fact.name} {third(fact.verb)} {fact.rest}."


def answer_how(fact: Fact) -> str:
    """Return the answer to the question for a function that does something."""
    return f"Use {fact.name}. It {third(fact.verb)} {fact.rest}."


def trained(fact: Fact, seed: int = 0) -> Iterator[Pair]:
    """Yield a fact in all phrasings of training, with words replaced and left out, and two questions without an answer."""
    chance = random.Random(f"{seed} {fact.name}")
    for phrasing in WHAT:
        yield Pair(_opened(phrasing.format(name=fact.name), chance), answer_what(fact))
    for phrasing in HOW:
        yield Pair(_opened(_asked(phrasing, fact, chance), chance), answer_how(fact))
    # Names that do not exist, beside those that do.
    letters = "".join(chance.choices("abcdefghiklmnoprstuvw", k=chance.randint(3, 8)))
    invented = fact.name[: fact.name.rfind(".") + 1] + letters
    yield Pair(_opened(chance.choice(WHAT).format(name=invented), chance), UNKNOWN)
    other = " ".join(chance.choice(OTHERS.split(";")).split())
    yield Pair(_opened(chance.choice(OTHER).format(other=other), chance), UNKNOWN)


def kept(fact: Fact) -> list[Pair]:
    """Return a fact in the phrasings that are not trained."""
    verb, rest = _asked_for(fact)
    plain = {"do": f"{verb} {rest}", "does": f"{third(verb)} {rest}"}
    return [
        *(Pair(phrasing.format(name=fact.name), answer_what(fact)) for phrasing in WHAT_KEPT),
        *(Pair(phrasing.format(**plain), answer_how(fact)) for phrasing in HOW_KEPT),
    ]


def _asked_for(fact: Fact) -> tuple[str, str]:
    """Return the verb and the rest of a question for a function."""
    if fact.verb == "return" and fact.rest.startswith("True if "):
        return "check", "whether " + fact.rest.removeprefix("True if ").split(",")[0]
    return ("get" if fact.verb == "return" else fact.verb), fact.rest


def _asked(phrasing: str, fact: Fact, chance: random.Random) -> str:
    verb, rest = _asked_for(fact)
    if chance.random() < 0.5:
        rest = re.split(r",| if ", rest)[0]
    for word, other in SYNONYMS:
        if chance.random() < 0.3:
            verb, rest = (re.sub(rf"\b{word}\b", other, text) for text in (verb, rest))
    missing = chance.choice((0.0, 0.1, 0.2))
    words = [word for word in rest.split() if chance.random() >= missing] or [rest]
    return phrasing.format(do=" ".join([verb, *words]), does=" ".join([third(verb), *words]))


def _opened(question: str, chance: random.Random) -> str:
    if chance.random() < 0.7:
        return question
    return f"{chance.choice(OPENINGS)} {question[0].lower()}{question[1:]}"

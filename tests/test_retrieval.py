"""The parts of the retrieval example that decide: passages, orders, sentences; and the embedding model in its package."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.beginner_questions import HELD_OUT, TUNED

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture(scope="module")
def parts() -> SimpleNamespace:
    """The modules of the example, imported as its program imports them."""
    before = list(sys.path)
    sys.path.insert(0, str(EXAMPLES / "retrieval"))
    try:
        import answers
        import deployments
        import documentation
        import embedding
        import index
        import passages
        import ranking
    finally:
        sys.path[:] = before
    return SimpleNamespace(
        **{
            module.__name__: module
            for module in (answers, deployments, documentation, embedding, index, passages, ranking)
        }
    )


@pytest.fixture(scope="module")
def encoder(parts: SimpleNamespace) -> object:
    return parts.embedding.Encoder()


def test_vectors_are_those_of_the_library_the_model_was_made_with(
    parts: SimpleNamespace, encoder: object
) -> None:
    texts = [
        "How do I copy a whole folder?",
        "shutil.copytree: Recursively copy a directory tree.",
        "x " * 400,
    ]
    vectors = encoder.vectors(texts)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    # As sentence-transformers 6.2 gave them for the same texts; the third is longer than the model reads.
    assert np.round(vectors @ vectors.T, 3)[np.triu_indices(3, 1)].tolist() == pytest.approx(
        [0.581, 0.046, 0.090], abs=2e-3
    )
    alone = [encoder.vectors([text])[0] for text in texts]
    assert np.allclose(vectors, alone, atol=1e-4), "padding beside longer texts changes nothing"


@pytest.fixture(scope="module")
def found(parts: SimpleNamespace) -> list:
    """All passages, in order."""
    return list(parts.passages.all_passages())


def test_topics_are_clean_texts(parts: SimpleNamespace) -> None:
    answers = [each.answer for each in parts.documentation.topic_documents()]
    assert len(answers) > 50
    for answer in answers:
        assert answer == answer.strip() and "\n\n\n" not in answer and len(answer) > 20
    assert len(parts.documentation.library_files()) > 300


def test_passages_are_short_and_none_is_repeated(parts: SimpleNamespace, found: list) -> None:
    assert len(found) > 3000 and len({each.title for each in found}) > 2500
    lengths = sorted(len(each.text) for each in found)
    assert lengths[int(0.97 * len(found))] <= parts.passages.LONGEST + 200
    of_reference = [each.text for each in found if each.title.startswith("reference: ")]
    assert len(of_reference) - len(set(of_reference)) <= 0.01 * len(of_reference)
    titles = [each.title for each in found if not each.title.startswith("reference: ")]
    assert len(titles) == len(set(titles))


def test_each_name_has_a_page_with_signature_and_summary(found: list) -> None:
    pages = {each.title: each for each in found}
    assert {"open", "str.split", "shutil.copytree", "datetime.date.today", "csv"} <= set(pages)
    page = pages["shutil.copytree"]
    assert page.text.startswith("shutil.copytree(src, dst, ")
    assert page.summary == "Recursively copy a directory tree and return the destination directory."
    assert (
        pages["int"].summary
        == "Convert a number or string to an integer, or return 0 if no arguments are given."
    )
    # Equal docstrings are one page, that of the name that is used most.
    assert "str.replace" in pages and "random.choice" in pages and "random.Random.choice" not in pages
    assert pages["len"].uses > 100 > pages["os.path.dirname"].uses > pages["os.openpty"].uses


def test_well_known_passages_get_a_vector(parts: SimpleNamespace, found: list) -> None:
    chosen = parts.index.well_known(found)
    titles = [found[which].title for which in chosen]
    # A vector takes milliseconds, so their number is what makes the first start fast or slow.
    assert 500 < len(titles) == len(set(titles)) < 1000
    assert {"open", "sorted", "reference: while"} <= set(titles) and "os.openpty" not in titles


def test_a_text_is_cut_between_paragraphs_or_else_sentences(parts: SimpleNamespace) -> None:
    sentence = "This is one of many sentences that say next to nothing at all. "
    short, long = "A paragraph that stays whole, though it is short.", (sentence * 12).strip()
    first, *rest = parts.passages.passages_of("t", f"A heading\n*********\n\n{short}\n\n{long}")
    assert first.text == f"A heading\n\n{short}"
    assert all(each.text.endswith("at all.") for each in rest)
    assert " ".join(each.text for each in rest) == long
    assert list(parts.passages.passages_of("t", 'a ::= "(" [b ["," c] ] ")" {"+" | "-"} 1 2 3 4 5 6 7')) == []


def words(parts: SimpleNamespace, *titled: tuple[str, str, int]) -> object:
    """The ranking by words of passages with these titles, summaries and uses."""
    return parts.ranking.Words(
        [parts.passages.Passage(title, summary, summary, uses) for title, summary, uses in titled]
    )


def test_words_count_more_when_they_are_rare_and_without_their_endings(parts: SimpleNamespace) -> None:
    ranked = words(
        parts,
        ("a", "copy files", 0),
        ("b", "copy trees", 0),
        ("c", "copy names", 0),
        ("d", "trees " + "x " * 60, 0),
    )
    scores = ranked.scores("How do I use a tree?")
    assert scores[1] > scores[3] > scores[0] == scores[2] == 0
    assert ranked.best(scores, 3) == [1, 3]
    scores = ranked.scores("copying names")
    assert ranked.best(scores, 9) == [2, 0, 1] and scores[2] > 2 * scores[1]
    assert ranked.best(ranked.scores("zebra"), 4) == [] == ranked.best(ranked.scores(""), 4)


def test_synonyms_names_and_popularity_count(parts: SimpleNamespace) -> None:
    ranked = words(
        parts,
        ("os.unlink", "Take it away.", 0),
        ("os.cut", "Cut it.", 0),
        ("shorten.cut_text", "Cut it.", 0),
        ("list.cut", "Cut it.", 50),
    )
    assert ranked.best(ranked.scores("How do I delete it?"), 4) == [0], "documentation calls it unlink"
    assert ranked.best(ranked.scores("How do I cut?"), 4) == [3, 1, 2]


def test_sentences_leave_out_headings_and_code(parts: SimpleNamespace) -> None:
    text = 'The "if" statement\n\nIt is used for conditional\nexecution. See:\n\n  if x:\n\nExactly one of them is selected.'
    assert parts.answers.sentences(text) == [
        "It is used for conditional execution.",
        "Exactly one of them is selected.",
    ]


def test_an_answer_is_what_says_most_and_says_nothing_twice(parts: SimpleNamespace, encoder: object) -> None:
    tree = "Recursively copy a directory tree and return the destination. It was a dark and stormy night in the mountains."
    sources = [("shutil.copytree", tree), ("copied", tree), ("empty", "x = 1")]
    extracted = list(parts.answers.extract(encoder, "How do I copy a whole directory?", sources))
    assert extracted[0] == ("Recursively copy a directory tree and return the destination.", 0)
    assert not any("stormy" in sentence for sentence, _ in extracted)


@pytest.fixture(scope="module")
def first(parts: SimpleNamespace, found: list, encoder: object) -> Callable[[str], str]:
    """Answers with the title of the first source: the deployments' own methods, without Serve."""
    chosen = parts.index.well_known(found)
    texts = [parts.index.embedded_text(found[which].title, found[which].summary) for which in chosen]
    retriever = SimpleNamespace(
        encoder=encoder,
        words=parts.ranking.Words(found),
        index=parts.index.Index(found, np.array(chosen), encoder.vectors(texts)),
    )
    find = parts.deployments.Retriever.func_or_class._find
    rank = parts.deployments.Reranker.func_or_class._rank

    def answer(question: str) -> str:
        candidates = find(retriever, [question])[0]
        sources = rank(SimpleNamespace(encoder=encoder), question, candidates)
        return sources[0].title if sources else ""

    return answer


def test_beginners_find_the_right_page(first: Callable[[str], str]) -> None:
    wrong = {question: title for question, right in TUNED.items() if (title := first(question)) not in right}
    assert len(wrong) <= 5, wrong
    assert first("How do I open a file for reading?") == "open"


def test_questions_that_were_not_tuned_for_find_most_pages(first: Callable[[str], str]) -> None:
    wrong = {
        question: title for question, right in HELD_OUT.items() if (title := first(question)) not in right
    }
    assert len(wrong) <= 6, wrong


@pytest.mark.parametrize("question", ["How do I bake bread?", "Who won the football world cup?"])
def test_questions_about_something_else_find_nothing(first: Callable[[str], str], question: str) -> None:
    assert first(question) == ""


def test_what_is_no_question_is_refused_with_the_reason(parts: SimpleNamespace) -> None:
    parse, refused = parts.deployments.asked, parts.deployments.Refused
    assert parse(b'{"question": " why? ", "stream": true}') == ("why?", True)
    assert parse(b'{"question": "why?", "stream": 1}') == ("why?", False)
    for body, reason in [
        (b"why?", "to be JSON"),
        (b'"why?"', "missing"),
        (b'{"question": "\\n"}', "empty"),
        (b'{"question": "%s"}' % (b"x" * 501), "this one has 501"),
    ]:
        with pytest.raises(refused, match=reason):
            parse(body)


def test_an_index_that_was_broken_off_is_none(parts: SimpleNamespace, tmp_path: Path) -> None:
    (tmp_path / "vectors.npy").write_bytes(b"half of it")
    assert not parts.index.is_there(tmp_path)

"""The parts of the retrieval example that decide: passages, orders, sentences; and the embedding model in its package."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture(scope="module")
def parts() -> SimpleNamespace:
    """The modules of the example, imported as its program imports them."""
    before = list(sys.path)
    sys.path[:0] = [str(EXAMPLES / "retrieval"), str(EXAMPLES)]
    try:
        import answers
        import deployments
        import embedding
        import index
        import passages
        import ranking
    finally:
        sys.path[:] = before
    return SimpleNamespace(
        **{module.__name__: module for module in (answers, deployments, embedding, index, passages, ranking)}
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


def test_tokens_have_a_vector_each(encoder: object) -> None:
    short, long = encoder.token_vectors(["copy a folder", "copy a folder and all that is in it"])
    assert short.shape == (3, 384) and len(long) == 9
    assert np.allclose(np.linalg.norm(short, axis=1), 1, atol=1e-5)


def test_passages_are_short_and_none_is_said_twice(parts: SimpleNamespace) -> None:
    found = list(parts.passages.all_passages())
    assert len(found) > 1500 and len({each.title for each in found}) > 1000
    lengths = sorted(len(each.text) for each in found)
    assert (
        lengths[0] >= parts.passages.SHORTEST
        and lengths[int(0.97 * len(found))] <= parts.passages.LONGEST + 100
    )
    of_reference = [each.text for each in found if each.title.startswith("reference: ")]
    assert len(of_reference) - len(set(of_reference)) <= 0.01 * len(of_reference)
    assert "shutil.copytree" in {each.title for each in found}


def test_a_text_is_cut_between_paragraphs_or_else_sentences(parts: SimpleNamespace) -> None:
    sentence = "This is one of many sentences that say next to nothing at all. "
    short, long = "A paragraph that stays whole, though it is short.", (sentence * 12).strip()
    first, *rest = parts.passages.passages_of("t", f"A heading\n*********\n\n{short}\n\n{long}")
    assert first.text == f"A heading\n\n{short}"
    assert all(each.text.endswith("at all.") for each in rest)
    assert " ".join(each.text for each in rest) == long
    assert list(parts.passages.passages_of("t", 'a ::= "(" [b ["," c] ] ")" {"+" | "-"} 1 2 3 4 5 6 7')) == []


def test_words_count_more_when_they_are_rare(parts: SimpleNamespace) -> None:
    words = parts.ranking.Words(["copy files", "copy folders", "copy names", "a long text " * 30 + "folders"])
    assert words.best("How do I use folders?", 2) == [1, 3]
    assert words.score("folder", 1) > words.score("folder", 3) > words.score("folder", 0) == 0
    assert words.best("zebra", 4) == []


def test_the_nearest_are_found_for_each_question(parts: SimpleNamespace) -> None:
    vectors = np.eye(4, dtype=np.float32)
    queries = np.array([[0, 0.6, 0.8, 0], [1, 0, 0, 0]], np.float32)
    first, second = parts.ranking.nearest(queries, vectors, 2)
    assert [which for which, _ in first] == [2, 1] and first[0][1] == pytest.approx(0.8)
    assert second[0] == (0, 1.0)
    assert len(parts.ranking.nearest(queries, vectors, 9)[0]) == 4


def test_late_interaction_takes_the_best_token_for_each_of_the_questions(parts: SimpleNamespace) -> None:
    axes = np.eye(3, dtype=np.float32)
    assert parts.ranking.max_sim(axes[:2], axes) == 1.0
    assert parts.ranking.max_sim(axes, axes[:2]) == pytest.approx(2 / 3)
    assert parts.ranking.max_sim(axes, axes[:0]) == 0.0


def test_orders_are_put_together_by_rank(parts: SimpleNamespace) -> None:
    scores = parts.ranking.fused([[0, 1, 2], [0, 2, 1], [0, 1, 2]])
    assert scores[0] == pytest.approx(1) and scores[0] > scores[1] > scores[2]
    weighed = parts.ranking.fused([[0, 1], [1, 0]], [1.0, 0.5])
    assert weighed[0] > weighed[1]


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

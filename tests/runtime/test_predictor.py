"""Prediction from a file against the torch model that the file was made of, and what a user may rely on."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from mixling import (  # noqa: E402
    ConfigError,
    DataError,
    ModelConfig,
    ModelFileError,
    Predictor,
    TextConfig,
    TextEncoder,
    build_model,
)
from mixling.answers import LabelSet  # noqa: E402
from mixling.export import export_onnx  # noqa: E402
from mixling.mixers import TokenMLPConfig  # noqa: E402
from mixling.models import Model, TorchNetwork  # noqa: E402
from mixling.networks import (  # noqa: E402
    BlockConfig,
    EmbeddingConfig,
    FeedForwardConfig,
)
from mixling.runtime.onnx import seal  # noqa: E402
from mixling.tasks import (  # noqa: E402
    ANSWER_ENDS,
    Classification,
    QuestionAnswering,
    Tagging,
    Task,
)
from mixling.text import MinHash, ReadingConfig, SimHash, train_vocabulary  # noqa: E402

SENTENCE = "play some music by the beatles what is the weather in paris tomorrow book a table for two"
WORDS = SENTENCE.split()
VOCABULARY = train_vocabulary([SENTENCE], TextConfig(vocabulary_size=100))
CLASSES = Classification(LabelSet(("music", "weather", "table"), "single"))
TAGS = Tagging(LabelSet(("O", "B-x", "I-x", "B-y"), "iob"))
MAX_LEN = 20


def texts(count: int) -> list[str]:
    """Texts of 0 to 24 words, some unknown to the vocabulary, some too long, in no order of length."""
    random = np.random.default_rng(3)
    words = [*WORDS, "Naïve", "größe", "!", "42", "東京"]
    return [" ".join(random.choice(words, random.integers(0, 25))) for _ in range(count)]


def build(
    projection: MinHash | SimHash, task: Task, seed: int, *, window: int = 0, pairs: bool | None = None
) -> tuple[Model, bytes]:
    layer = BlockConfig(mixers=(TokenMLPConfig(hidden_dim=40),), feed_forward=FeedForwardConfig(ffn_dim=40))
    config = ModelConfig(
        text=TextConfig(projection=projection, max_len=MAX_LEN),
        embedding=EmbeddingConfig(window=window),
        dim=16,
        layers=(layer,),
    )
    reading = ReadingConfig() if task.windows else None
    model = build_model(config, num_outputs=len(task.labels), output=task.output, seed=seed)
    content = export_onnx(
        TorchNetwork(model),
        text=config.text,
        task=task.name,
        labels=task.labels,
        vocabulary=VOCABULARY,
        precision="float32",
        pairs=pairs,
        reading=reading,
    )
    return model, content


@pytest.fixture(scope="module")
def classifier() -> tuple[Model, bytes]:
    return build(SimHash(num_features=64), CLASSES, 1, window=1)


@pytest.fixture(scope="module")
def tagger() -> tuple[Model, bytes]:
    return build(MinHash(num_features=64, num_hashes=8), TAGS, 2)


@pytest.fixture(scope="module")
def other_tagger() -> tuple[Model, bytes]:
    return build(MinHash(num_features=64, num_hashes=8), TAGS, 3, window=1)


def torch_logits(model: Model, predictor: Predictor, text: str) -> np.ndarray:
    encoder = TextEncoder(predictor.text_config, VOCABULARY)
    words = encoder.encode([text])[0].words
    bags = encoder.bags(words)
    weights = None if bags.weights is None else torch.from_numpy(bags.weights)
    index = torch.arange(1, len(words) + 1)[None]
    with torch.no_grad():
        return model.eval()(torch.from_numpy(bags.features), weights, index, index > 0)[0].numpy()


def softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits.astype(np.float64))
    return powers / powers.sum(-1, keepdims=True)


def test_every_way_to_ask_gives_the_torch_models_answer(classifier: tuple[Model, bytes]) -> None:
    model, content = classifier
    predictor = Predictor(content, too_long="truncate")
    rows = texts(120)
    expected = np.array([softmax(torch_logits(model, predictor, text)) for text in rows])
    assert len(set(expected.argmax(-1))) > 1

    np.testing.assert_allclose(predictor.predict_proba(rows), expected, atol=1e-5)
    batch, stream = predictor.predict(rows), list(predictor.predict_stream(iter(rows), batch_size=5))
    for text, row, *answers in zip(rows, expected, batch, stream, map(predictor.predict_one, rows), strict=True):
        for answer in (*answers, predictor.predict(text)):
            assert answer.label == CLASSES.labels.names[row.argmax()]
            assert answer.probabilities == pytest.approx(dict(zip(CLASSES.labels.names, row, strict=True)), abs=1e-5)
            assert answer.truncated == (len(text.replace("東", "東 ").split()) > MAX_LEN)
    assert any(answer.truncated for answer in batch)
    assert "" in rows


def test_words_and_pairs_are_texts(classifier: tuple[Model, bytes]) -> None:
    predictor = Predictor(classifier[1])
    whole = predictor.predict("play some music").probabilities
    assert predictor.predict_one(["play", "some", "music"]).probabilities == pytest.approx(whole, abs=1e-6)
    assert predictor.predict([["play", "some", "music"]])[0].probabilities == pytest.approx(whole, abs=1e-6)
    assert [len(item.probabilities) for item in predictor.predict(["play", "music"])] == [3, 3]
    pair, turned = ("play some music", "the weather"), ("the weather", "play some music")
    first = predictor.predict(pair).probabilities
    assert predictor.predict([pair])[0].probabilities == pytest.approx(first, abs=1e-6)
    assert predictor.predict(turned).probabilities != pytest.approx(first, abs=1e-4)


@pytest.mark.parametrize("wrong", [[None], ["a", 3], [("a",)], [["a", 1]], [b"a"], None, b"abc", 7, ("a", "b", "c")])
def test_what_is_no_text_is_refused(classifier: tuple[Model, bytes], wrong: object) -> None:
    with pytest.raises(DataError, match="text"):
        Predictor(classifier[1]).predict(wrong)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("pairs", [True, False])
def test_a_model_answers_for_what_it_was_trained_on(pairs: bool) -> None:
    predictor = Predictor(build(SimHash(num_features=64), CLASSES, 1, pairs=pairs)[1])
    pair, single = ("play some music", "the weather"), "play some music"
    right, wrong = (pair, single) if pairs else (single, pair)
    assert predictor.metadata.pairs is pairs
    assert predictor.predict(right).label == predictor.predict([right])[0].label
    assert len(predictor.predict_proba([right])) == len(predictor.tokenize([right])) == 1
    says = "is one text; .* trained on pairs: pass" if pairs else "is a pair of texts; .* trained on single texts: pass"
    for ask in (predictor.predict, predictor.predict_one):
        with pytest.raises(DataError, match=f"item 0 {says}"):
            ask(wrong)
    for ask_all in (predictor.predict, predictor.predict_proba, predictor.encode):
        with pytest.raises(DataError, match=f"item 1 {says}"):
            ask_all([right, wrong])
    with pytest.raises(DataError, match=says):
        list(predictor.predict_stream(iter([wrong])))


@pytest.mark.parametrize("wrong", [{"a": 1}, np.array([["a", "b", "c"]]), np.array("a")])
def test_what_is_no_list_of_texts_is_not_taken_apart(classifier: tuple[Model, bytes], wrong: object) -> None:
    with pytest.raises(DataError, match="not a list of texts"):
        Predictor(classifier[1]).predict_proba(wrong)  # type: ignore[arg-type]


def test_no_texts_give_no_answers(classifier: tuple[Model, bytes]) -> None:
    predictor = Predictor(classifier[1])
    assert predictor.predict([]) == []
    assert predictor.predict_proba([]).shape == (0, 3)
    assert predictor.logits([]) == []


def test_tags_stand_at_the_users_characters(tagger: tuple[Model, bytes]) -> None:
    model, content = tagger
    predictor = Predictor(content, too_long="truncate")
    rows = texts(80)
    for text, answer, alone in zip(rows, predictor.predict(rows), map(predictor.predict_one, rows), strict=True):
        words = text.split()
        if "東京" not in text:  # two words, written as one
            assert answer.tokens == tuple(words[:MAX_LEN])
            assert answer.truncated == (len(words) > MAX_LEN)
        tags = TAGS.best_tags(torch_logits(model, predictor, text)[: len(answer.tokens)])
        assert answer.tags == tuple(TAGS.labels.names[tag] for tag in tags) == alone.tags
        assert answer.probabilities is None
        starts = {text.find(token): token for token in answer.tokens}
        for span in answer.spans:
            assert text[span.start : span.end].strip() == text[span.start : span.end] != ""
            assert span.start in starts or text[span.start - 1] in " 東"
    assert any(answer.spans for answer in predictor.predict(rows))


def test_a_text_without_words_is_marked(classifier: tuple[Model, bytes], tagger: tuple[Model, bytes]) -> None:
    texts = ["", " \n\t", "a film", ("", " "), ("", "a"), [], ["film"]]
    for _, content in (classifier, tagger):
        predictor = Predictor(content)
        asked = texts if not predictor.task.per_word else [text for text in texts if not isinstance(text, tuple)]
        expected = [all(not part.strip() for part in ([text] if isinstance(text, str) else text)) for text in asked]
        answers = predictor.predict(asked)
        assert isinstance(answers, list)
        assert [answer.empty for answer in answers] == expected
        assert [predictor.predict_one(text).empty for text in asked] == expected
        assert [answer.to_dict().get("empty", False) for answer in answers] == expected


def test_a_tagger_keeps_words_that_were_given_and_reads_no_pairs(tagger: tuple[Model, bytes]) -> None:
    predictor = Predictor(tagger[1])
    words = ["New York", "is", "x-y"]  # not how the text would be split
    answer = predictor.predict_one(words)
    assert answer.tokens == tuple(words)
    text = " ".join(words)
    assert {text[span.start : span.end] for span in answer.spans} <= {
        " ".join(words[first:last]) for first, last in itertools.combinations(range(4), 2)
    }
    for empty in ("", " \n", []):
        answer = predictor.predict_one(empty)
        assert (answer.tokens, answer.tags, answer.spans) == ((), (), ())
    with pytest.raises(DataError, match="pair"):
        predictor.predict(("a", "b"))
    with pytest.raises(DataError, match="predict"):
        predictor.predict_proba(["a"])


def test_two_models_read_texts_that_were_encoded_once(
    tagger: tuple[Model, bytes], other_tagger: tuple[Model, bytes], classifier: tuple[Model, bytes]
) -> None:
    first = Predictor(tagger[1])
    second = Predictor(other_tagger[1], encoder=first.encoder)
    rows = texts(40)
    encoded = first.tokenize(rows)
    for predictor, (model, _) in ((first, tagger), (second, other_tagger)):
        for text, logits in zip(rows, predictor.logits(encoded), strict=True):
            np.testing.assert_allclose(logits, torch_logits(model, predictor, text), atol=1e-4)
    with pytest.raises(ConfigError, match="encoder"):
        Predictor(classifier[1], encoder=first.encoder)
    longer = TextEncoder(TextConfig(projection=first.text_config.projection, max_len=99), VOCABULARY)
    with pytest.raises(ConfigError, match="20 words"):
        Predictor(tagger[1], encoder=longer)


def test_answers_outlast_a_table_that_starts_anew(classifier: tuple[Model, bytes]) -> None:
    predictor = Predictor(classifier[1])
    small = TextEncoder(predictor.text_config, VOCABULARY, max_table=10)
    forgetful = Predictor(classifier[1], encoder=small)
    rows = texts(60)
    expected = predictor.predict_proba(rows)
    for text, row in zip(rows, expected, strict=True):
        np.testing.assert_allclose(list(forgetful.predict_one(text).probabilities.values()), row, atol=1e-6)
    assert small.generation > 3
    old = forgetful.tokenize(rows[:1])
    forgetful.tokenize(rows[1:])
    with pytest.raises(DataError, match="encode them again"):
        forgetful.logits([*old, *forgetful.tokenize(rows[:3])])


def test_a_stream_is_read_as_far_as_it_is_answered(
    classifier: tuple[Model, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mixling.runtime.inputs.PART_TEXTS", 8)
    read = []

    def endless() -> Iterator[str]:
        for number in itertools.count():
            read.append(number)
            yield " ".join(WORDS[: number % 7])

    predictor = Predictor(classifier[1])
    answers = list(itertools.islice(predictor.predict_stream(endless()), 20))
    assert len(read) == 24
    np.testing.assert_allclose(
        [list(answer.probabilities.values()) for answer in answers],
        predictor.predict_proba([" ".join(WORDS[: number % 7]) for number in range(20)]),
        atol=1e-6,
    )


def test_threads_share_a_predictor(classifier: tuple[Model, bytes]) -> None:
    rows = texts(200)
    expected = Predictor(classifier[1]).predict_proba(rows)
    predictor = Predictor(
        classifier[1], encoder=TextEncoder(Predictor(classifier[1]).text_config, VOCABULARY, max_table=12)
    )
    wrong = []

    def ask(first: int) -> None:
        for number in range(first, len(rows), 4):
            row = list(predictor.predict_one(rows[number]).probabilities.values())
            if not np.allclose(row, expected[number], atol=1e-5):
                wrong.append(number)

    threads = [threading.Thread(target=ask, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_logits_that_are_not_finite_are_an_error(classifier: tuple[Model, bytes]) -> None:
    onnx = pytest.importorskip("onnx")
    proto = onnx.load_from_string(classifier[1])
    bias = next(item for item in proto.graph.initializer if item.name == "head.output.bias")
    bias.raw_data = np.full(3, np.nan, np.float32).tobytes()
    content = seal(proto.SerializeToString())
    with pytest.raises(ModelFileError, match="finite"):
        Predictor(content).predict("play")


def test_a_folder_or_a_lone_file_predicts_without_torch(classifier: tuple[Model, bytes], tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(classifier[1])
    program = """
import sys
from mixling import Predictor
for path in sys.argv[1:]:
    print(Predictor(path).predict("play some music").label)
loaded = {"torch", "onnx", "onnxscript", "sklearn", "pyarrow", "matplotlib", "transformers"} & set(sys.modules)
assert not loaded, loaded
"""
    paths = [str(tmp_path), str(tmp_path / "model.onnx")]
    out = subprocess.run(
        [sys.executable, "-c", program, *paths], capture_output=True, text=True, timeout=60, check=True
    )
    label = Predictor(tmp_path).predict("play some music").label
    assert (out.stdout, out.stderr) == (f"{label}\n{label}\n", "")


def test_a_file_states_what_it_is(classifier: tuple[Model, bytes]) -> None:
    predictor = Predictor(classifier[1])
    assert predictor.task.name == "classification"
    assert predictor.labels == CLASSES.labels
    assert predictor.metadata.precision == "float32"
    assert predictor.metadata.parameters == sum(p.numel() for p in classifier[0].parameters())


def test_what_is_printed_of_a_predictor_and_an_answer(
    classifier: tuple[Model, bytes], tagger: tuple[Model, bytes]
) -> None:
    predictor = Predictor(classifier[1])
    assert repr(predictor) == (
        "<Predictor of the model's bytes: classification, 3 labels ('music', 'weather', 'table'), "
        f"{predictor.metadata.parameters:,} parameters, float32>"
    )
    answer = predictor.predict_one("play music")
    assert repr(answer) == (
        f"Prediction(truncated=False, label={answer.label!r}, probabilities={answer.probabilities!r})"
    )
    tags = Predictor(tagger[1]).predict_one("")
    assert repr(tags) == "Prediction(truncated=False, empty=True, spans=(), tokens=(), tags=())"


@pytest.mark.slow
def test_a_model_that_answers_questions_takes_pairs_whatever_its_file_has() -> None:
    _, content = build(MinHash(num_features=64, num_hashes=8), QuestionAnswering(ANSWER_ENDS), 4, pairs=False)
    predictor = Predictor(content)
    with pytest.raises(DataError, match="this model answers questions"):
        predictor.predict(["one text"])
    assert predictor.predict_one(("what is played", "play some music")).answer is not None

"""Answers of the npm package in node are those of Python with ONNX Runtime."""

from __future__ import annotations

import functools
import itertools
import json
import random
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper

from mixling import ModelFileError, Predictor
from mixling.browser import one_script, without_comments, write_page
from mixling.export import amend
from mixling.runtime.onnx import seal
from mixling.runtime.onnx.file import _SEAL_LENGTH as SEAL_LENGTH
from mixling.text import word_spans
from mixling.text.clean import clean

from ..native.test_ngrams import changed

NODE = shutil.which("node")
pytestmark = [pytest.mark.skipif(NODE is None, reason="there is no node"), pytest.mark.slow]  # each starts node
HERE = Path(__file__).parent
ROOT = HERE.parents[1]
MODELS = HERE.parent / "serving" / "models"
PACKAGE = ROOT / "src" / "mixling" / "browser" / "package" / "index.js"
LETTERS = [*"abnNtT'’sSdmlvreLVE ,.!-_\n\t\x00\ufeff", *"éΣσİ\u0301\u0323你🫨\ud83d\u00ad각각\u0344\u0958"]


@functools.cache
def hostile_texts() -> list[str]:
    """Texts that are hard to read; JavaScript has no pair of surrogates that is not one character."""
    rng = random.Random(0)
    texts = [
        "", "   ", "play some music", "x" * 100_000, "word " * 300, "Σ" * 3000 + "\u0301" * 2000, "🫨" * 40,
        "it isn't, don't! I'd've we'll they’re n't N'T 's 'll RE've x'n't'", "\x00NUL\ufeffmark\x00",
        "\ud800lone \udfff", "a\u0301bc ΑΣ ΟΔΟΣ σΣ. İstanbul ſ ẞ", "हिन्दी में शब्द", "ไทย", "가각힣 각 각",
        "你好世界 ça 好a", "\u0958\u0344\u1e69 \u0323\u0301a\u0301\u0323",
        "\x1c\x85\xa0\u2028a\u3000b\u200bc\u00add", "שלום עולם",
    ]  # fmt: skip
    texts += ["".join(rng.choices(LETTERS, k=rng.randint(0, 60))) for _ in range(200)]
    kinds = (0x110000, 0x3000, 0x300)
    texts += ["".join(chr(rng.randrange(rng.choice(kinds))) for _ in range(rng.randint(1, 40))) for _ in range(200)]
    return [text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass") for text in texts]


KEYS = {"pairs": ("first", "second"), "answers": ("question", "context")}
EXPLAINED = [
    "play 🫨 music by the beatles",
    "",
    "it isn't",
    "book a table " * 11,
    "\ud800 x",
    "éte\u0301 שלום in paris",
]


def asked(name: str, texts: list[str]) -> list[Any]:
    """The texts as the model reads them."""
    return list(itertools.pairwise(texts)) if name in KEYS else texts


def run(path: Path, inputs: list[Any], explained: list[Any], package: Path = PACKAGE) -> dict[str, Any]:
    """What answers.mjs prints for a model."""
    command = [str(NODE), str(HERE / "answers.mjs"), str(package)]
    given = json.dumps({"model": str(path), "inputs": inputs, "explained": explained})
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@functools.cache
def in_node(name: str) -> dict[str, Any]:
    def inputs(texts: list[str]) -> list[Any]:
        return [text if isinstance(text, str) else dict(zip(KEYS[name], text, strict=True)) for text in texts]

    explained = [] if name in ("slots", "answers") else inputs(asked(name, EXPLAINED))
    return run(MODELS / f"{name}.onnx", inputs(asked(name, hostile_texts())), explained)


@pytest.fixture
def onnx(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIXLING_ENGINE", "onnx")


def same_numbers(got: Any, expected: Any) -> None:
    """Compare JSON values, numbers to 1e-5."""
    if isinstance(expected, dict):
        assert list(got) == list(expected)
        for key, value in expected.items():
            same_numbers(got[key], value)
    elif isinstance(expected, list):
        assert len(got) == len(expected)
        for one, other in zip(got, expected, strict=True):
            same_numbers(one, other)
    elif isinstance(expected, float):
        assert got == pytest.approx(expected, abs=1e-5)
    else:
        assert got == expected


def near_ties(values: np.ndarray) -> bool:
    """Whether rounding decides which label is the most probable one."""
    return len(values) > 1 and float(np.diff(np.sort(values)[-2:])[0]) < 1e-5


@pytest.mark.parametrize("name", ["intents", "topics", "stars", "pairs"])
@pytest.mark.usefixtures("onnx")
def test_answers_are_those_of_python(name: str) -> None:
    predictor, found = Predictor(MODELS / f"{name}.onnx"), in_node(name)
    texts = asked(name, hostile_texts())
    assert (found["task"], found["labels"]) == (predictor.task.name, list(predictor.labels.names))
    assert found["pairs"] is (name == "pairs")
    expected = np.stack(predictor.text_logits(texts))
    got = np.array([item["logits"] for item in found["out"]])
    assert np.ptp(expected, axis=0).max() > 0.05
    long = np.array([len(str(text)) > 300 for text in texts])
    np.testing.assert_allclose(got[~long], expected[~long], rtol=0, atol=1e-5)
    np.testing.assert_allclose(got[long], expected[long], rtol=0, atol=1e-4)
    for item, prediction, logits, text in zip(found["out"], predictor.predict(texts), expected, texts, strict=True):
        if len(str(text)) < 300 and not near_ties(logits):
            same_numbers(item["prediction"], prediction.to_dict())
        assert item["prediction"]["truncated"] == prediction.truncated


@pytest.mark.usefixtures("onnx")
def test_tags_are_those_of_python() -> None:
    predictor, found = Predictor(MODELS / "slots.onnx"), in_node("slots")
    assert (found["task"], found["labels"]) == ("tagging", list(predictor.labels.names))
    spans = 0
    for item, prediction in zip(found["out"], predictor.predict(hostile_texts()), strict=True):
        same_numbers(item["prediction"], prediction.to_dict())
        spans += len(item["prediction"]["spans"])
    assert spans > 100


def test_scripts_without_comments_answer_as_well(tmp_path: Path) -> None:
    for source in PACKAGE.parent.glob("*.js"):
        (tmp_path / source.name).write_text(script := without_comments(source.read_text("utf-8")))
        assert not [line for line in script.splitlines() if line.strip().startswith(("//", "*", "/*"))]
    (tmp_path / "package.json").write_text('{"type": "module"}')
    shutil.copy(PACKAGE.parent / "mixling.wasm", tmp_path)
    path, texts = MODELS / "intents.onnx", hostile_texts()[:5]
    found = run(path, texts, [texts[2]], package=tmp_path / "index.js")
    assert found == run(path, texts, [texts[2]])


@pytest.mark.usefixtures("onnx")
def test_tags_with_transitions_are_those_of_python(tmp_path: Path) -> None:
    plain = Predictor(MODELS / "slots.onnx")
    size = len(plain.labels.names)
    values = np.random.default_rng(0).normal(scale=2, size=(size, size)).astype(np.float32)
    array = numpy_helper.from_array(values, "tags.transitions")
    content = changed((MODELS / "slots.onnx").read_bytes(), lambda model: model.graph.initializer.append(array))
    (tmp_path / "slots.onnx").write_bytes(content)
    predictor, texts = Predictor(content), hostile_texts()[:100]
    found, expected = run(tmp_path / "slots.onnx", texts, [])["out"], predictor.predict(texts)
    for item, prediction in zip(found, expected, strict=True):
        same_numbers(item["prediction"], prediction.to_dict())
    assert [item.tags for item in expected] != [item.tags for item in plain.predict(texts)]


@pytest.mark.usefixtures("onnx")
def test_answers_to_questions_are_those_of_python() -> None:
    predictor, found = Predictor(MODELS / "answers.onnx"), in_node("answers")
    texts = asked("answers", hostile_texts())
    for item, text, prediction in zip(found["out"], texts, predictor.predict(texts), strict=True):
        got, expected = item["prediction"], prediction.to_dict()
        if len(text[1]) > 300:  # repeated words are equally good answers, of which rounding chooses
            got, expected = ({"score": values["score"]} for values in (got, expected))
        same_numbers(got, expected)


@pytest.mark.usefixtures("onnx")
def test_words_are_those_of_python() -> None:
    config = Predictor(MODELS / "intents.onnx").text_config
    for text, item in zip(hostile_texts(), in_node("intents")["out"], strict=True):
        spans = word_spans(clean(text, config.max_chars)[0], config.max_len, contractions=config.contractions)
        assert item["words"] == [list(span) for span in spans]


@pytest.mark.parametrize("name", ["intents", "topics", "stars", "pairs"])
@pytest.mark.usefixtures("onnx")
def test_explanations_are_those_of_python(name: str) -> None:
    predictor = Predictor(MODELS / f"{name}.onnx", too_long="truncate")  # as JavaScript's are
    for text, got in zip(asked(name, EXPLAINED), in_node(name)["explanations"], strict=True):
        expected = predictor.explain(text, method="leave_one_out").to_dict()
        del expected["text"]
        assert [word["word"] for word in got["words"]] == [word["word"] for word in expected["words"]]
        for one, other in zip(got["words"], expected.pop("words"), strict=True):
            same_numbers(one, other)
        same_numbers({key: value for key, value in got.items() if key != "words"}, {**expected})


def test_thresholds_and_sets_of_labels_are_those_of_python(tmp_path: Path) -> None:
    texts = [text for text in hostile_texts() if len(text) < 100]
    values: dict[str, dict[str, Any]] = {
        "topics": {"label_thresholds": {"a": 0.51, "c": 0.53}},
        "intents": {"threshold": 0.4, "conformal": {"method": "aps", "coverage": 0.9, "quantile": 0.4}},
    }
    number = len(Predictor(MODELS / "intents.onnx").labels)
    costs = np.random.default_rng(0).uniform(0, 2, (number, number)).tolist()
    rules = {"offsets": [0.3 * (i % 3) for i in range(number)], "costs": []}, {"offsets": [], "costs": costs}
    for method, quantile, rule in (("aps", 0.4, rules[0]), ("lac", 0.68, rules[1]), ("aps", 0.4, {"levels": "e"})):
        values["intents"]["conformal"] |= {"method": method, "quantile": quantile}
        values["intents"]["rule"] = rule
        for name, changes in values.items():
            content = amend((MODELS / f"{name}.onnx").read_bytes(), **changes)
            (tmp_path / "model.onnx").write_bytes(content)
            found = run(tmp_path / "model.onnx", texts, [])["out"]
            chosen, predictor = set(), Predictor(content)
            for item, prediction in zip(found, predictor.predict(texts), strict=True):
                same_numbers(item["prediction"], prediction.to_dict())
                chosen.add(str([item["prediction"].get(key) for key in ("abstained", "label_set", "labels")]))
            assert len(chosen) > 3, "the thresholds decide nothing"


def test_changed_files_are_refused_or_answer() -> None:
    command = [str(NODE), str(HERE / "damaged.mjs"), str(PACKAGE), str(MODELS / "intents.onnx"), "300"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout)
    assert counts["opened"] > 20
    assert counts["refused"] > 20


def test_labels_are_refused_as_in_python(tmp_path: Path) -> None:
    content, file = (MODELS / "intents.onnx").read_bytes(), tmp_path / "model.onnx"
    names = Predictor(content).labels.names
    script = f"""
        import {{ readFileSync }} from "node:fs";
        import {{ Mixling }} from {json.dumps(PACKAGE.as_uri())};
        const data = new Uint8Array(readFileSync({json.dumps(str(file))}));
        await Mixling.load(data).then(() => console.log("opened"), (error) => console.log(error.name));
    """
    for first, expected in (("other", "opened"), *((name, "ModelFileError") for name in ("", " ", names[1], "lonely"))):
        changed_names = amend(content, labels={"kind": "single", "names": [first, *names[1:]]})
        file.write_bytes(seal(changed_names[:-SEAL_LENGTH].replace(b'"lonely"', rb'"\ud800"')))
        done = subprocess.run(
            [str(NODE), "--input-type=module", "-e", script], capture_output=True, text=True, timeout=60, check=True
        )
        assert done.stdout.strip() == expected, first
        for engine in ("native", "onnx"):
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("MIXLING_ENGINE", engine)
                if expected == "opened":
                    assert Predictor(file).labels.names[0] == first
                else:
                    with pytest.raises(ModelFileError, match="label"):
                        Predictor(file)


def test_the_page_of_one_file_answers_with_the_model_in_it(tmp_path: Path) -> None:
    write_page((MODELS / "intents.onnx").read_bytes(), tmp_path / "page.html", name="intents")
    html = (tmp_path / "page.html").read_text("utf-8")
    assert re.findall(r"https?://", html) == []
    elements = dict(re.findall(r'<script type="text/plain" id="([^"]+)">([^<]*)</script>', html))
    text = "play <b>some</b> jazz in paris"
    (tmp_path / "page.mjs").write_text(
        f"globalThis.document = {{ getElementById: (id) => ({{ textContent: ({json.dumps(elements)})[id] }}) }};\n"
        + one_script(["errors", "engine", "predictions", "explanation", "index", "api", "render"])
        + f"await $api.models();\nconst given = {{ texts: [{json.dumps(text)}], explain: true }};\n"
        'const [answer] = await $api.predict("intents", given, { throwIfAborted() {} });\n'
        "console.log(JSON.stringify([answer.label, answer.probabilities, answer.explanation.words.length]));\n"
    )
    assert NODE is not None
    done = subprocess.run([NODE, tmp_path / "page.mjs"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    label, probabilities, words = json.loads(done.stdout)
    predictor = Predictor(MODELS / "intents.onnx")
    expected = predictor.predict_one(text)
    assert (label, words) == (expected.label, len(predictor.explain(text).words))
    assert probabilities == pytest.approx(expected.probabilities, abs=1e-5)
    assert html.count("<script") == 5
    assert "UNICODE LICENSE" in elements["NOTICE.txt"]
    (script,) = re.findall(r'(?s)<script type="module">\n(.*?)</script>', html)
    (tmp_path / "whole.mjs").write_text(script)
    assert subprocess.run([NODE, "--check", tmp_path / "whole.mjs"], check=False).returncode == 0

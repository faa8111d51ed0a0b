"""Models on the hub: pushed and pulled whole, offline after one pull, and every failure one message."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mixling import ConfigError, ModelFileError, Predictor, load
from mixling.artifacts.push import push

from .conftest import FakeHub

MODEL = Path(__file__).parents[1] / "golden" / "model-v1.onnx"
NAME = "org/model"


@pytest.fixture
def pushed(fake_hub: FakeHub) -> FakeHub:
    fake_hub.commit(NAME, "main", {"model.onnx": MODEL.read_bytes()})
    return fake_hub


def test_what_is_pushed_is_pulled_byte_for_byte(fake_hub: FakeHub, tmp_path: Path) -> None:
    commit = push(MODEL, NAME)
    predictor = Predictor.from_pretrained(NAME)
    assert predictor.content == MODEL.read_bytes()
    assert fake_hub.downloads() == ["model.onnx"], "one file is enough to predict"
    texts = ["a text", "another"]
    assert predictor.predict(texts) == Predictor(MODEL).predict(texts)
    assert Predictor.from_pretrained(f"{NAME}@{commit}").content == MODEL.read_bytes()
    assert Predictor(f"hf:{NAME}").content == load(f"hf:{NAME}").content == MODEL.read_bytes()
    assert fake_hub.at(NAME, "main") == commit
    long = "word " * 1000
    assert not predictor.predict_one(long).truncated
    assert Predictor.from_pretrained(NAME, too_long="truncate").predict_one(long).truncated
    with pytest.raises(ConfigError, match="names a revision"):
        Predictor.from_pretrained(f"{NAME}@main", revision="v2")


def test_a_branch_has_its_own_model_and_a_local_folder_comes_first(
    pushed: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    push(MODEL, NAME, revision="v2")
    pushed.commit(NAME, "main", {"model.onnx": b"another file"})
    assert Predictor.from_pretrained(NAME, revision="v2").content == MODEL.read_bytes()
    (tmp_path / "org" / "model").mkdir(parents=True)
    shutil.copy(MODEL, tmp_path / "org" / "model" / "model.onnx")
    monkeypatch.chdir(tmp_path)
    assert Predictor.from_pretrained(NAME).content == MODEL.read_bytes()


def test_an_unchanged_model_is_not_downloaded_again_and_none_needs_a_network(
    pushed: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ModelFileError, match="was not downloaded before; leave out local_files_only"):
        Predictor.from_pretrained(NAME, local_files_only=True)
    Predictor.from_pretrained(NAME)
    Predictor.from_pretrained(NAME)
    assert pushed.downloads() == ["model.onnx"]
    load(f"hf:{NAME}")
    pushed.status = 503
    assert load(f"hf:{NAME}").content == MODEL.read_bytes()
    assert Predictor.from_pretrained(NAME, local_files_only=True).content == MODEL.read_bytes()
    assert Predictor.from_pretrained(NAME).content == MODEL.read_bytes()
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", "http://127.0.0.1:9/{repo_id}/{revision}/{filename}")
    assert Predictor.from_pretrained(NAME).content == MODEL.read_bytes()


def test_a_changed_model_is_downloaded(pushed: FakeHub) -> None:
    Predictor.from_pretrained(NAME)
    other = MODEL.with_name("plan-v1.onnx").read_bytes()
    pushed.commit(NAME, "main", {"model.onnx": other})
    assert Predictor.from_pretrained(NAME).content == other


def test_a_cut_transfer_is_continued(pushed: FakeHub) -> None:
    pushed.cut = 2
    assert Predictor.from_pretrained(NAME).content == MODEL.read_bytes()
    assert len(pushed.downloads()) == 3


def test_a_transfer_that_is_always_cut_is_one_error_and_leaves_nothing(pushed: FakeHub) -> None:
    pushed.cut = 1000
    with pytest.raises(ModelFileError, match=r"org/model: the transfer failed: .*; try again"):
        Predictor.from_pretrained(NAME)
    pushed.cut = 0
    assert Predictor.from_pretrained(NAME).content == MODEL.read_bytes()


def test_a_damaged_pull_is_one_error_and_not_kept(pushed: FakeHub) -> None:
    pushed.damage = True
    for name in (NAME, f"hf:{NAME}"):
        with pytest.raises(ModelFileError, match=r"model.onnx is damaged: .* downloads it again"):
            Predictor.from_pretrained(name)
    with pytest.raises(ModelFileError, match="is damaged"):
        load(f"hf:{NAME}")
    pushed.damage = False
    assert Predictor.from_pretrained(NAME).content == MODEL.read_bytes()
    assert load(f"hf:{NAME}").content == MODEL.read_bytes()


def test_every_failure_has_its_remedy(pushed: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    pushed.commit("org/other", "main", {"a.txt": b"no model"})
    for name, words in (
        ("org/none", "does not exist on the hub, or is private; .*hf auth login"),
        (f"{NAME}@v9", "has no such revision"),
        ("org/other", "has no such file"),
        ("a/b/c", "is not a name on the hub"),
        (f"{NAME}@", "is not NAME@REVISION"),
    ):
        with pytest.raises((ModelFileError, ConfigError), match=words):
            Predictor.from_pretrained(name)
    with pytest.raises(ModelFileError, match="holds no model of mixling"):
        load("hf:org/other")
    pushed.private.add(NAME)
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    with pytest.raises(ModelFileError, match="or is private"):
        Predictor.from_pretrained(NAME)
    with pytest.raises(ModelFileError, match=r"refuses access \(401\); .*HF_TOKEN"):
        push(MODEL, NAME)
    for status in (500, 503):
        pushed.status = status
        with pytest.raises(ModelFileError, match=f"{status}|cannot be reached"):
            Predictor.from_pretrained("org/new")


def test_a_damaged_model_is_not_uploaded(fake_hub: FakeHub, tmp_path: Path) -> None:
    content = MODEL.read_bytes()
    (tmp_path / "model.onnx").write_bytes(content[:500] + b"x" + content[501:])
    with pytest.raises(ModelFileError):
        push(tmp_path / "model.onnx", NAME)
    assert fake_hub.repos == {}


def test_a_short_card_names_the_model_and_what_the_user_adds(fake_hub: FakeHub) -> None:
    import yaml

    push(
        MODEL,
        f"hf:{NAME}",
        license="apache-2.0",
        languages=["en"],
        datasets=["org/data"],
        examples=["a text: 'x'\n---"],
    )
    card = fake_hub.commits[fake_hub.repos[NAME]["main"]]["README.md"].decode()
    _, head, body = card.split("---\n", 2) if card.count("---\n") == 2 else ("", card.split("\n---\n")[0][4:], card)
    data = yaml.safe_load(head)
    assert data == {
        "library_name": "mixling",
        "tags": ["mixling", "onnx"],
        "license": "apache-2.0",
        "language": ["en"],
        "datasets": ["org/data"],
        "widget": [{"text": "a text: 'x'\n---"}],
    }
    assert f'Predictor.from_pretrained("{NAME}")' in body

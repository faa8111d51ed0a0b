"""Write the page that trains: a file of labeled texts in, a model file out, all in the browser."""

from __future__ import annotations

import base64
import gzip
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from mixling.answers.labels import LabelSet
from mixling.browser.site import POLICY_OF_FILE, one_file, one_script, page
from mixling.export.onnx import export_onnx
from mixling.networks.network import TextNetwork
from mixling.networks.plan import plan_network
from mixling.networks.presets import PRESETS
from mixling.storage import write_atomic
from mixling.text.vocabulary import Vocabulary
from mixling.training.backends.choose import make_network

_LABELS = {"mixling-small": 6, "mixling-linear": 2}  # six are the fewest whose head is stored in 8 bits
# Words are not split into subwords: the page has nothing that finds them.
VOCABULARY = "[UNK]\n"
_POLICY = POLICY_OF_FILE.replace("base-uri", "worker-src blob:; base-uri")
# Importers come later.
_ENGINE = ("errors", "engine", "predictions", "explanation", "index")
_TRAINING = ("core", "features", "margins", "mixture", "file", "fit", "network", "split", "interval", "train")
_WORK = (*_ENGINE, *_TRAINING, "lesson", "work")
_PAGE = ("errors", "render", "rows", "interval", "remote", "session", "kept", "studio", "page")
_LABELING = ("render", "api", "outbox", "curve", "words", "app")


def write_trainer(path: Path) -> None:
    """Write one HTML file that trains classifiers, which a browser opens without a server.

    Its models are what the preset "mixling-linear" gives, n-grams alone, or "mixling-small" with embeddings that begin
    at random and words as they are (docs/how-to/train-in-a-page.md).
    """
    folder = files("mixling.browser") / "trainer"
    html = page((folder / "index.html").read_text("utf-8"), _POLICY)
    embedded = {
        "NOTICE.txt": (files("mixling.browser") / "package" / "NOTICE.txt").read_text("utf-8"),
        "plan": json.dumps(plan()),
        **{preset: _packed(template(preset)) for preset in _LABELS},
        "trainer.wasm": _packed((folder / "trainer.wasm").read_bytes()),
        "labeling": _labeling(),
        # A page that is opened as a file has no workers that are modules.
        "worker": f"(async () => {{\n{one_script(_WORK).replace('import.meta.url', 'location.href')}}})();",
    }
    style = (folder / "trainer.css").read_text("utf-8")
    write_atomic(path, one_file(html, embedded, one_script(_PAGE), style))


def _labeling() -> str:
    """Return the page of `mixling label`, whose answers the page around it keeps."""
    folder = files("mixling.labeling") / "page"
    html = (folder / "index.html").read_text("utf-8")
    html = html.replace('    <link rel="stylesheet" href="page/label.css">\n', "")
    html = html.replace('    <script type="module" src="page/app.js"></script>\n', "")
    places = (("mixling.browser", "labeler"), ("mixling.labeling", "page"), ("mixling.serving", "playground"))
    made = one_file(html, {}, one_script(_LABELING, places), (folder / "label.css").read_text("utf-8"))
    return made.replace("</script", "<\\/script")


def _packed(content: bytes) -> str:
    return base64.b64encode(gzip.compress(content, mtime=0)).decode()


def plan() -> dict[str, Any]:
    """Return the plan of the network with two labels, as JSON has it."""
    found = plan_network(PRESETS["mixling-small"].config, 2, "text")
    return {"shapes": found.shapes, "places": found.places, "numbers": found.numbers.tolist()}


def template(preset: str) -> bytes:
    """Return the file that models begin as; the weights of a network that is read have one value each."""
    config = PRESETS[preset].config
    network: TextNetwork = make_network(config, _LABELS[preset], "text", seed=0)
    if config.layers:
        values = enumerate(network.weights().items(), 1)
        network.restore({name: np.full_like(weight, number) for number, (name, weight) in values})
    return export_onnx(
        network,
        text=config.text,
        task="classification",
        labels=LabelSet(tuple(map(str, range(_LABELS[preset]))), "single"),
        vocabulary=Vocabulary.parse("vocab.txt", VOCABULARY),
        precision="int8",
        pairs=False,
    )

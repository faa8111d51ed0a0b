"""Write the page that trains: a file of labeled texts in, a model file out, all in the browser."""

from __future__ import annotations

import base64
from importlib.resources import files
from pathlib import Path

from mixling.answers.labels import LabelSet
from mixling.browser.site import POLICY_OF_FILE, one_file, one_script, page
from mixling.export.onnx import export_onnx
from mixling.networks.network import TextNetwork
from mixling.networks.presets import PRESETS
from mixling.storage import write_atomic
from mixling.text.encoder import train_vocabulary
from mixling.training.backends.choose import make_network

_PRESET = "mixling-linear"
_POLICY = POLICY_OF_FILE.replace("base-uri", "worker-src blob:; base-uri")
# Importers come later.
_ENGINE = ("errors", "engine", "predictions", "explanation", "index")
_WORK = (*_ENGINE, "core", "features", "margins", "mixture", "file", "fit", "split", "train", "work")
_PAGE = ("errors", "render", "rows", "page")


def write_trainer(path: Path) -> None:
    """Write one HTML file that trains classifiers, which a browser opens without a server.

    Its models are what the preset "mixling-linear" gives: n-grams alone, chosen and fitted in the same way.
    """
    folder = files("mixling.browser") / "trainer"
    html = page((folder / "index.html").read_text("utf-8"), _POLICY)
    embedded = {
        "NOTICE.txt": (files("mixling.browser") / "package" / "NOTICE.txt").read_text("utf-8"),
        "template": base64.b64encode(template()).decode(),
        "trainer.wasm": base64.b64encode((folder / "trainer.wasm").read_bytes()).decode(),
        # A page that is opened as a file has no workers that are modules.
        "worker": f"(async () => {{\n{one_script(_WORK).replace('import.meta.url', 'location.href')}}})();",
    }
    style = (folder / "trainer.css").read_text("utf-8")
    write_atomic(path, one_file(html, embedded, one_script(_PAGE), style))


def template() -> bytes:
    """Return the file that models of the page begin as: with a network that is not read, and two labels."""
    config = PRESETS[_PRESET].config
    vocabulary = train_vocabulary(["a"], config.text)
    labels = LabelSet(("a", "b"), "single")
    network: TextNetwork = make_network(config, len(labels), "text", seed=0)
    return export_onnx(
        network,
        text=config.text.for_vocabulary(vocabulary),
        task="classification",
        labels=labels,
        vocabulary=vocabulary,
        precision="int8",
        pairs=False,
    )

"""`mixling export`: a model as a single file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from mixling.cli.options import MODEL
from mixling.errors import ConfigError, command_line, near_miss

if TYPE_CHECKING:
    from mixling.runtime.onnx.session import OpenModel

_PRECISIONS = ("int8", "float32")


def export_command(
    model: Annotated[str | None, MODEL] = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", metavar="FILE.onnx", help="File to write.")] = None,
    browser: Annotated[
        Path | None,
        typer.Option("--browser", metavar="PATH", help="Write a web page: a folder, or one file PAGE.html."),
    ] = None,
    trainer: Annotated[
        Path | None,
        typer.Option("--trainer", metavar="PAGE.html", help="Write a web page that trains models, without MODEL."),
    ] = None,
    precision: Annotated[
        str | None, typer.Option("--precision", metavar="int8|float32", help="Precision of weights [as in MODEL].")
    ] = None,
) -> None:
    """Write a model as one ONNX file, or as a web page.

    The file includes vocabulary, labels and configuration. Torch is needed only for a precision other than the
    folder's model.onnx, and for the best model so far of an unfinished run.

    With --browser, a page is written that computes answers in the browser: one file PAGE.html, which can be opened and
    sent as it is, or a folder for any file server. Repeat the latter with other models to compare them on one page.

    With --trainer, the page has no model: drop a CSV or JSONL file there, and it trains one as `mixling train --model
    mixling-small` or mixling-linear does, shows what it gets right, and saves model.onnx. No text leaves the browser.
    """
    if trainer is not None:
        _write_trainer(trainer, model, out, browser, precision)
        return
    if model is None:
        raise ConfigError("give MODEL, a run folder or a model.onnx; or --trainer PAGE.html for a page that trains one")
    from mixling.artifacts.resume import unfinished_run
    from mixling.runtime.onnx.session import open_model
    from mixling.runtime.quick import ONNX_FILE

    if precision is not None and precision not in _PRECISIONS:
        raise ConfigError(f"--precision: got {precision!r}; {near_miss(precision, _PRECISIONS)}")
    if (out is None) == (browser is None):
        raise ConfigError("give -o FILE.onnx, or --browser PAGE.html for a web page")
    if out is not None and out.is_dir():
        raise ConfigError(f"{out}: is a folder; name a file, such as {out / 'model.onnx'}")
    run = None if (Path(model) / ONNX_FILE).exists() else unfinished_run(model)
    if run is not None:
        from mixling.artifacts.unfinished import export_best

        content, precision = export_best(run, precision=cast(Any, precision))
        _write(content, out, browser, model, f"{precision}, best so far of an unfinished run")
        print(f"at step {run.step:,}; resume it with: {run.command}", file=sys.stderr)
        return
    opened = open_model(model)
    has = opened.metadata.precision
    folder = Path(model).is_dir()
    if precision in (None, has):
        content = (Path(model) / ONNX_FILE if folder else Path(model)).read_bytes()
    elif not folder:
        raise ConfigError(f"{model}: holds {has} weights; for {precision}, give a run folder, which has float weights")
    else:
        content = _export_anew(model, precision, opened)
        if precision == "int8":
            print("note: check the accuracy of the 8-bit model with `mixling evaluate`", file=sys.stderr)
    _write(content, out, browser, model, precision or has)


def _write_trainer(path: Path, *others: object) -> None:
    from mixling.browser.training_page import write_trainer

    if any(other is not None for other in others):
        raise ConfigError("--trainer PAGE.html writes a page without a model; leave out MODEL and all other options")
    if path.suffix != ".html":
        raise ConfigError(f"--trainer: got {path}; a page is one file, such as {path.with_suffix('.html')}")
    write_trainer(path)
    print(
        f"{path}: a page that trains models ({path.stat().st_size / 1e6:.2f} MB); open it in a browser", file=sys.stderr
    )


def _write(content: bytes, out: Path | None, browser: Path | None, model: str, what: str) -> None:
    from mixling.storage import write_atomic

    size = f"{len(content) / 1e6:.2f} MB, {what}"
    if out is not None:
        write_atomic(out, content)
        print(f"{out}: {size}", file=sys.stderr)
        return
    from mixling.browser.site import write_page, write_site
    from mixling.serving.settings import model_name

    assert browser is not None
    name = model_name(Path(model))
    if browser.suffix == ".html":
        write_page(content, browser, name=name)
        print(f"{browser}: a page with {name} ({size}); open it in a browser", file=sys.stderr)
        return
    write_site(content, browser, name=name)
    print(f"{browser}: a page with {name} ({size}); look at it with:", file=sys.stderr)
    print(command_line("python", "-m", "http.server", "--directory", browser), file=sys.stderr)


def _export_anew(folder: str, precision: str, opened: OpenModel) -> bytes:
    from mixling.artifacts.weights import load_network
    from mixling.export.onnx import amend, export_onnx

    network, encoder, labels, task = load_network(folder)
    metadata = opened.metadata
    content = export_onnx(
        network,
        text=encoder.config,
        task=task,
        labels=labels,
        vocabulary=encoder.vocabulary,
        precision=cast(Any, precision),
        pairs=metadata.pairs,
        texts=metadata.texts,
        reading=metadata.reading,
    )
    branch = None
    if opened.branch is not None and metadata.ngrams is not None:
        branch = opened.branch, metadata.ngrams
    conformal = None if metadata.conformal is None else metadata.conformal.to_dict()
    thresholds: dict[str, Any] = {"threshold": metadata.threshold, "label_thresholds": metadata.label_thresholds}
    return amend(content, branch=branch, columns=opened.columns, conformal=conformal, **thresholds)

"""Write the tables of README.md, docs/benchmarks.md and docs/costs.md that are marked with comments, from the results.

    python experiments/readme.py

A table stands between `<!-- table: NAME -->` and `<!-- end of table -->`; TABLES has what is written there. Where there
are no results yet, the document states that. Accuracies are means of at least three seeds with their standard
deviation; results of fewer seeds are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from tables import benchmarks, gmlp, hypermixer, own, papers, pnlp, text_to_text, use
from tables.markdown import NO_RESULTS

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = (ROOT / "experiments" / "README.md", ROOT / "docs" / "benchmarks.md", ROOT / "docs" / "costs.md")
_MARKED = re.compile(r"(?<=<!-- table: )(\w+) -->\n(?:(?!<!-- table: ).)*?(?=\n<!-- end of table -->)", re.DOTALL)

TABLES: dict[str, Callable[[Path], str]] = {
    "pairs_of_shapes": hypermixer.pairs_of_shapes,
    "mixer_family": hypermixer.mixer_family,
    "mixer_family_sizes": hypermixer.mixer_family_sizes,
    "qnli": hypermixer.qnli,
    "conjnli_family": hypermixer.conjnli_family,
    "sst2_family": hypermixer.sst2_family,
    "snips_family": hypermixer.snips_family,
    "contradictions": papers.contradictions,
    "recall": hypermixer.recall,
    "hypermixer_search_paper": hypermixer.hypermixer_search_paper,
    "hypermixer_search_paper_sst2": hypermixer.hypermixer_search_paper_sst2,
    "hypermixer_search": hypermixer.hypermixer_search,
    "hypermixer_search_snips": hypermixer.hypermixer_search_snips,
    "hypermixer_search_conjnli": hypermixer.hypermixer_search_conjnli,
    "hypermixer_search_conjnli_words": hypermixer.hypermixer_search_conjnli_words,
    "gmlp_ablation": gmlp.gmlp_ablation,
    "gmlp_filters": gmlp.gmlp_filters,
    "gmlp_scaling": gmlp.gmlp_scaling,
    "gmlp_data": gmlp.gmlp_data,
    "pretraining": gmlp.pretraining,
    "fashion_mnist": gmlp.fashion_mnist,
    "parsing": text_to_text.parsing,
    "span_corruption": text_to_text.span_corruption,
    "remixer_cost": text_to_text.remixer_cost,
    "own_models": own.own_models,
    "ngram_powers": own.ngram_powers,
    "ngram_branch": own.ngram_branch,
    "batch_size": own.batch_size,
    "refit": own.refit,
    "few_labels": own.few_labels,
    "few_labels_systems": own.few_labels_systems,
    "explanations": use.explanations,
    "label_errors": use.label_errors,
    "suggestions": use.suggestions,
    "late_labels": use.late_labels,
    "trust": use.trust,
    "conformal_sets": use.conformal_sets,
    "slots": pnlp.slots,
    "fine_tuned": own.fine_tuned,
    "noise": own.noise,
    "patience": own.patience,
    "speed": benchmarks.speed,
    "core_hours": benchmarks.core_hours,
    "native_profile": benchmarks.native_profile,
    "papers_models": benchmarks.papers_models,
    "training_steps": benchmarks.training_steps,
    "training_layers": benchmarks.training_layers,
    "trainings": benchmarks.trainings,
    "heap": benchmarks.heap,
    "revisions": benchmarks.revisions,
    "hypermixing": benchmarks.hypermixing,
    "columns": benchmarks.columns,
    "hypermixing_training": benchmarks.hypermixing_training,
    "pnlp_tables": pnlp.pnlp_tables,
    "exact_match": pnlp.exact_match,
    "pnlp_distilled": pnlp.distilled,
    "languages": pnlp.languages,
    "hyperpartisan": pnlp.hyperpartisan,
    "long_reviews": pnlp.long_reviews,
}


def written(document: str, folder: Path = ROOT) -> str:
    """Return a document with the tables of the results.

    Args:
        folder: the repository's.
    """
    return _MARKED.sub(lambda found: f"{found[1]} -->\n\n{_table(found[1], folder)}\n", document)


def _table(name: str, folder: Path) -> str:
    table = TABLES[name]
    try:
        return table(folder)
    except FileNotFoundError:
        return NO_RESULTS


if __name__ == "__main__":
    for path in DOCUMENTS:
        path.write_text(written(path.read_text("utf-8")), "utf-8")

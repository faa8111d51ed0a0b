"""Files and hub data sets -> examples -> batches."""

from typing import TYPE_CHECKING

from mixling.lazy import lazy_imports

if TYPE_CHECKING:
    from mixling.data.batches import Batch, TextSet, collate, shard, training_batches
    from mixling.data.cells import read_cell
    from mixling.data.config import ColumnsConfig as ColumnsConfig
    from mixling.data.corpora import read_texts
    from mixling.data.dataset import Dataset
    from mixling.data.duplicates import DuplicateFinder as DuplicateFinder
    from mixling.data.examples import Example, Target, read_examples
    from mixling.data.guess import guess_columns
    from mixling.data.in_memory import tagged_rows
    from mixling.data.inputs import PlainTexts, file_items, plain_or_items, stream_items
    from mixling.data.label_remarks import conflict_line, conflicting
    from mixling.data.readers import STDIN, RowBlock, read_row_blocks, read_rows
    from mixling.data.readers.lines import MAX_LINE
    from mixling.data.readers.rows import OnBadRow as OnBadRow
    from mixling.data.readers.rows import Row
    from mixling.data.similar_labels import with_escapes
    from mixling.data.splits import assign_folds, check_labels, few_per_label, split_validation
    from mixling.data.unlabeled import choose_texts, fragments, read_unlabeled, split_sentences

__getattr__, __dir__ = lazy_imports(__name__)

"""Label texts in a browser: a page on this machine, a file that keeps each answer, and a model that chooses texts."""

from mixling.lazy import TYPE_CHECKING, lazy_imports

if TYPE_CHECKING:
    from mixling.labeling.agreement import agreement_of, cohen, krippendorff
    from mixling.labeling.exports import EXPORTS, format_for, write_labeled
    from mixling.labeling.learner import Learned, Lesson, Pupil, learn, trained
    from mixling.labeling.lines import RecordLine
    from mixling.labeling.queue import STRATEGIES, Queue, is_test
    from mixling.labeling.record import Record
    from mixling.labeling.texts import FileTexts, example_of, key_of, read_file_texts

__getattr__, __dir__ = lazy_imports(__name__)

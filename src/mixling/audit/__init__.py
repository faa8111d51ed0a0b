"""What is wrong with labeled data: likely label errors, duplicates that disagree, leakage, rare and confused labels."""

from mixling.lazy import TYPE_CHECKING, lazy_imports

if TYPE_CHECKING:
    from mixling.audit.audit import leaked
    from mixling.audit.audits import Audit, LabelsAudit
    from mixling.audit.label_errors import (
        confident_labels,
        likely_errors,
        likely_mark_errors,
        mark_confidence,
        self_confidence,
        thresholds,
    )
    from mixling.audit.report import audit_page, rows_csv, summarize, write_report
    from mixling.audit.suggestions import suggest
    from mixling.audit.tags import tags_audit

__getattr__, __dir__ = lazy_imports(__name__)

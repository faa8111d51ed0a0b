"""The browser package: models in JavaScript, static pages that answer with them, and one that trains them."""

from typing import TYPE_CHECKING

from mixling.lazy import lazy_imports

if TYPE_CHECKING:
    from mixling.browser.site import one_script, without_comments, write_page, write_site
    from mixling.browser.training_page import plan, template, write_trainer

__getattr__, __dir__ = lazy_imports(__name__)

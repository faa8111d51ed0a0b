"""The browser package: models in JavaScript, and static pages that answer with them."""

from typing import TYPE_CHECKING

from mixling.lazy import lazy_imports

if TYPE_CHECKING:
    from mixling.browser.site import one_script, without_comments, write_page, write_site

__getattr__, __dir__ = lazy_imports(__name__)

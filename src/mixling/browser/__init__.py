"""The browser package: models in JavaScript, and static pages that answer with them."""

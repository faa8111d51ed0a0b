"""HTTP server for saved models, the page to try them in a browser, and a client; never torch."""

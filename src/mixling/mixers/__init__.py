"""Token mixers, one a file: `type = "token_mlp"` in a configuration means the file `token_mlp.py`."""

"""The command line: one file per command, imported when it runs."""

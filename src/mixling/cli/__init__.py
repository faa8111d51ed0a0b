"""The command line: one file a command, imported when it runs."""

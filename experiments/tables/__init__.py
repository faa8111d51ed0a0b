"""Tables of the documents: functions that take the folder of the repository and return Markdown."""

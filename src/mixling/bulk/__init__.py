"""Bulk prediction: files of any size, by several processes or a Ray cluster, into a folder that can be resumed."""

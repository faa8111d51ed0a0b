"""The version, where a build can read it without importing the package's dependencies."""

__version__ = "0.1.0"

"""Tests on a GPU. They are a package, so that files here may have the same names as files in test/python."""

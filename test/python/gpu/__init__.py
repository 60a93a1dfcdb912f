"""Tests on a GPU: a package, so that its files may have the names of those one folder up."""

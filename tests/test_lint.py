"""The project's own checks find what they are for, and nothing else."""

from __future__ import annotations

from tests.lint import size


def test_size_counts_neither_blanks_nor_comments_nor_docstrings() -> None:
    source = '"""A module."""\n\n# why\nx = 1  # one\n\n\nclass A:\n    """A class.\n\n    Two.\n    """\n\n    y = """\n\n    # kept\n    """\n'
    assert size.size_of(source) == size.CodeSize(code_lines=4, statements=5, modules=1)

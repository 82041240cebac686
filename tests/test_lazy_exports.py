"""Packages with lazy exports export the same names as with ordinary imports."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest

from digest.lazy_exports import exported_names
from tests.conftest import ROOT

LAZY = sorted(
    path.parent
    for path in (ROOT / "digest").rglob("__init__.py")
    if "__getattr__ = lazy_exports(" in path.read_text()
)


def package_named(folder: Path) -> str:
    return ".".join(folder.relative_to(ROOT).parts)


def test_the_large_packages_are_lazy() -> None:
    assert {"digest.subscribers", "digest.topics", "digest.publishing"} <= set(map(package_named, LAZY))


@pytest.mark.parametrize("folder", LAZY, ids=package_named)
def test_every_export_of_a_lazy_package_can_be_imported(folder: Path) -> None:
    package = import_module(package_named(folder))
    exports = dict(exported_names((folder / "__init__.py").read_text()))

    assert set(package.__all__) <= exports.keys()
    for name, (module, original) in exports.items():
        assert getattr(package, name) is getattr(import_module(module), original)


@pytest.mark.parametrize("folder", LAZY, ids=package_named)
def test_no_export_of_a_lazy_package_has_the_name_of_a_module(folder: Path) -> None:
    modules = {module.name for module in iter_modules([str(folder)])}

    assert not modules & dict(exported_names((folder / "__init__.py").read_text())).keys()


def test_a_missing_name_of_a_lazy_package_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"module 'digest\.topics' has no attribute 'nothing'"):
        import_module("digest.topics").nothing  # noqa: B018  (the access itself must fail)

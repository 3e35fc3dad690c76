"""No modules import each other, not even inside functions or for types alone."""

from __future__ import annotations

import grimp


def test_no_modules_import_each_other() -> None:
    graph = grimp.build_graph("kproxy")
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert [module for module in sorted(imports) if module in _reached(module, imports)] == []


def _reached(module: str, imports: dict[str, set[str]]) -> set[str]:
    """The modules that a module imports, directly or by way of others."""
    reached: set[str] = set()
    new = {module}
    while new:
        new = set().union(*(imports[one] for one in new)) - reached
        reached |= new
    return reached

"""Who may import whom, and the other rules that hold for the package as a whole."""

from __future__ import annotations

import ast
import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import streamline

ROOT = Path(streamline.__file__).parent
PACKAGE = "streamline"

#: Layer by layer: what the modules of a part may import, besides the part itself. The first matching prefix counts.
#: `_core` and `errors` are below everything, so every part but those two may use them.
VALUES = ("errors", "_core")
CONTRACT = (*VALUES, "abc")
GRAPH = (*CONTRACT, "_graph", "_channel.partition", "_operators", "_runtime.execute")
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "errors": (),
    "_core": ("errors",),
    "abc": VALUES,
    "_channel": CONTRACT,
    "_state": CONTRACT,
    "_operators": CONTRACT,
    "connectors": CONTRACT,
    "logs": VALUES,
    "metrics": (*CONTRACT, "_runtime.metrics"),
    "_graph": (*CONTRACT, "_channel"),
    "_runtime": (*CONTRACT, "_channel", "_state", "_graph"),
    # Public families that users subclass or name.
    "functions": (*CONTRACT, "_operators"),
    "state": CONTRACT,
    "windows": (*CONTRACT, "_operators"),
    "stream": (*GRAPH, "_runtime.metrics", "functions", "state", "windows", "connectors.memory", "metrics"),
    "table.bridge": (*GRAPH, "functions", "table", "stream"),
    "table": (*GRAPH, "functions", "connectors.registry"),
    "cep": (*GRAPH, "functions", "state", "stream"),
    "testing": ("",),
    # `import streamline` gives the names of the DataStream API.
    "": (*GRAPH, "functions", "state", "windows", "stream", "metrics"),
}

#: Modules over 600 lines, each with the reason why it is not split.
LARGE: dict[str, str] = {
    "abc": "the contract of operators, sources, sinks and tables, to be read as one page",
    "state": "one family that users import from one place; descriptors, handles and time to live name one another",
    "table.logical": "every logical node, so that who writes a rule sees them all; each checks itself",
}
LIMIT = 600


@dataclass(frozen=True)
class Module:
    """A module of the package: its name below `streamline`, and its source."""

    name: str
    path: Path

    @property
    def tree(self) -> ast.Module:
        return ast.parse(self.path.read_text(encoding="utf-8"), str(self.path))

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"


def modules() -> list[Module]:
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found.append(Module(".".join(parts[:-1] if parts[-1] == "__init__" else parts), path))
    return found


MODULES = modules()
NAMES = {m.name for m in MODULES}


def below(name: str, prefix: str) -> bool:
    return prefix == "" or name == prefix or name.startswith(prefix + ".")


def imports(module: Module, *, for_types: bool = True) -> Iterator[tuple[str, int]]:
    """Every module of ours that it imports; `for_types` says whether TYPE_CHECKING blocks count."""
    nodes = ast.walk(module.tree) if for_types else _at_run_time(module.tree)
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name == PACKAGE or alias.name.startswith(PACKAGE + "."):
                    yield alias.name.removeprefix(PACKAGE).removeprefix("."), node.lineno
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module.path}:{node.lineno}: imports are absolute"
            if node.module == PACKAGE or (node.module or "").startswith(PACKAGE + "."):
                base = (node.module or "").removeprefix(PACKAGE).removeprefix(".")
                for alias in node.names:
                    inner = f"{base}.{alias.name}".removeprefix(".")
                    yield (inner if inner in NAMES else base), node.lineno


def _at_run_time(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)):
            yield node
            yield from _at_run_time(node)


def layer_of(name: str) -> str:
    """The most specific entry of the table that the module is in."""
    fitting = [layer for layer in MAY_IMPORT if layer and below(name, layer)]
    return max(fitting, key=len, default="")


def violations() -> Iterator[str]:
    for module in MODULES:
        layer = layer_of(module.name)
        if layer == "" and module.name != "":
            yield f"{module.path}: {module.name} is in no layer; MAY_IMPORT in tests/test_layers.py has to name it"
            continue
        allowed = (*MAY_IMPORT[layer], *((layer,) if layer else ()))
        for imported, line in imports(module):
            if not any(below(imported, prefix) for prefix in allowed):
                yield f"{module.path}:{line}: {module.name or PACKAGE} may not import {PACKAGE}.{imported}"


def test_imports_go_down() -> None:
    assert list(violations()) == []


def test_nothing_imports_the_test_kit() -> None:
    for module in MODULES:
        if not below(module.name, "testing"):
            assert not [i for i, _ in imports(module) if below(i, "testing")], module.path


def test_the_import_graph_has_no_cycle() -> None:
    graph = {m.name: sorted({i for i, _ in imports(m, for_types=False)} - {m.name}) for m in MODULES}
    state: dict[str, str] = {}

    def visit(name: str, path: list[str]) -> None:
        if state.get(name) == "open":
            pytest.fail("a cycle of imports: " + " -> ".join([*path[path.index(name) :], name]))
        if name not in state:
            state[name] = "open"
            for imported in graph.get(name, ()):
                visit(imported, [*path, name])
            state[name] = "done"

    for name in graph:
        visit(name, [])


def test_no_import_inside_a_function() -> None:
    """They mark cycles and hide costs; extras and connectors go through a registry of import strings."""
    assert [
        f"{module.path}:{node.lineno}"
        for module in MODULES
        for function in ast.walk(module.tree)
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
        for node in ast.walk(function)
        if isinstance(node, (ast.Import, ast.ImportFrom))
    ] == []


def test_modules_are_small_or_say_why_not() -> None:
    sizes = {m.name: len(m.path.read_text(encoding="utf-8").splitlines()) for m in MODULES}
    large = {name: lines for name, lines in sizes.items() if lines > LIMIT}
    assert {name: lines for name, lines in large.items() if name not in LARGE} == {}
    assert [name for name in LARGE if name not in large] == [], "no longer large: take it out of the table"


def test_only_the_clock_module_asks_for_the_time_or_sleeps() -> None:
    """The test kit may wait for processes; everything else runs on the clock of the job."""
    forbidden = {("time", "time"), ("time", "time_ns"), ("time", "sleep"), ("time", "monotonic"), ("asyncio", "sleep"),
                 ("anyio", "sleep"), ("datetime", "now"), ("datetime", "utcnow"), ("date", "today")}  # fmt: skip
    for module in MODULES:
        if module.name == "_core.time" or below(module.name, "testing"):
            continue
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                used = (node.value.id.removeprefix("_").removeprefix("dt_"), node.attr)
                assert used not in forbidden, f"{module.path}:{node.lineno}: {'.'.join(used)}; use the injected clock"


def public_modules() -> list[Module]:
    return [m for m in MODULES if not any(part.startswith("_") for part in m.name.split(".") if part)]


def test_public_modules_list_their_names() -> None:
    """A public module has `__all__`, a tuple of names that it has; a package may have none where it gives no names."""
    wrong = []
    for module in public_modules():
        loaded = importlib.import_module(f"{PACKAGE}.{module.name}".rstrip("."))
        names = getattr(loaded, "__all__", None)
        defines = any(not isinstance(n, (ast.Expr, ast.ImportFrom)) for n in module.tree.body)
        if names is None and module.is_package and not defines:
            continue
        if not isinstance(names, tuple):
            wrong.append(f"{module.path} has no __all__ that is a tuple")
        elif len(set(names)) < len(names) or any(not hasattr(loaded, name) for name in names):
            wrong.append(f"{module.path}: a name in __all__ is there twice, or not at all")
    assert wrong == []


#: What users import from (API.md), each name from one of these only.
SURFACES = ("", "functions", "state", "windows", "table", "cep", "metrics", "testing", "abc")


def test_each_public_name_comes_from_one_place() -> None:
    homes: dict[str, dict[int, list[str]]] = {}
    for surface in SURFACES:
        if surface and surface not in NAMES:
            continue
        module = importlib.import_module(f"{PACKAGE}.{surface}".rstrip("."))
        for name in getattr(module, "__all__", ()):
            homes.setdefault(name, {}).setdefault(id(getattr(module, name)), []).append(surface or PACKAGE)
    # What connector authors implement is named in `abc` again; everything else has one home.
    doubled = {
        name: places
        for name, objects in homes.items()
        for places in objects.values()
        if len([p for p in places if p != "abc"]) > 1
    }
    assert doubled == {}


def loaded_by(*names: str) -> dict[str, Any]:
    """The modules that importing some loads in a fresh interpreter, and how long it took, in milliseconds."""
    program = (
        "import importlib, json, sys, time\n"
        "before = time.perf_counter()\n"
        "for name in sys.argv[1:]: importlib.import_module(name)\n"
        "took = (time.perf_counter() - before) * 1000\n"
        "print(json.dumps({'modules': sorted({m.split('.')[0] for m in sys.modules}), 'milliseconds': took}))"
    )
    command = [sys.executable, "-c", program, *names]
    done = subprocess.run(command, cwd=ROOT.parent, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("name", [PACKAGE, "streamline.testing", "streamline.functions", "streamline.cep"])
def test_the_stream_api_loads_neither_sqlglot_nor_aiokafka(name: str, record_property: Any) -> None:
    if name.removeprefix(PACKAGE).removeprefix(".") not in NAMES:
        return
    loaded = loaded_by(name)
    record_property("milliseconds", loaded["milliseconds"])
    heavy = {"sqlglot", "aiokafka", "rocksdict", "fsspec", "prometheus_client", "opentelemetry", "pytest", "numpy"}
    assert heavy.intersection(loaded["modules"]) == set()


@pytest.mark.parametrize("last_first", [False, True])
def test_every_module_can_be_loaded_whatever_comes_first(last_first: bool) -> None:
    names = sorted(f"{PACKAGE}.{m.name}" for m in MODULES if m.name and not m.name.endswith("__main__"))
    loaded_by(*(reversed(names) if last_first else names))

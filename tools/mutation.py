"""Mutation testing: changes a package's source at random places and reports the changes that no test notices.

    python -m tools.mutation FOLDER

cosmic-ray makes the changes ("mutants"). They are tried in copies of this tree without compiled modules, so that the
changed source is what runs. The tests run once without a change, to learn which test runs which line. For each mutant
only the tests that reach its statement run, the fastest first, until one fails.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import functools
import gc
import importlib
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import coverage
import pytest

ROOT: Final = Path(__file__).resolve().parent.parent
LEFT_OUT: Final = (".*", "*.so", "__pycache__", "build", "dist", "*.egg-info")
AT_IMPORT: Final = ""
"""The coverage context of lines that run outside of tests."""
MEMORY: Final = 8 << 30
CPU_SECONDS: Final = 15
"""CPU seconds that a mutant's tests may take beyond five times their unchanged time; more counts as an endless loop."""
TEST_SECONDS: Final = 60
RUN_SECONDS: Final = 900
BROKEN: Final = 70
"""Exit status of a process that could not run the tests."""


@dataclass(frozen=True, slots=True)
class Mutant:
    path: str
    line: int
    operator: str
    source: str
    """The source of the whole module with the change."""
    diff: str


@dataclass(frozen=True, slots=True)
class Verdict:
    killed: bool
    how: str


@dataclass(slots=True)
class Known:
    """What a run of the unchanged tests showed."""

    seconds: dict[str, float]
    """By test, the seconds that it took."""
    lines: dict[str, dict[int, set[str]]]
    """By path and line, what runs it: tests, test files (for lines that fixtures run), or AT_IMPORT."""
    modules: list[str]
    """Names of imported modules outside of this tree."""

    def tests(self, mutant: Mutant, unchanged: str) -> list[str]:
        """The tests that run the statement of a mutant, file by file, the fastest first."""
        lines = self.lines.get(mutant.path, {})
        reached = set().union(*(lines.get(line, set()) for line in statement(unchanged, mutant.line)))
        if AT_IMPORT in reached:
            reached = set().union(*lines.values())
        tests = [test for test in self.seconds if test in reached or file_of(test) in reached]
        if not tests:  # the statement may run in processes that the module's own tests start
            name = f"test_{Path(mutant.path).name}"
            tests = [test for test in self.seconds if Path(file_of(test)).name == name]
        files: dict[str, float] = {}
        for test in tests:
            files[file_of(test)] = files.get(file_of(test), 0) + self.seconds[test]
        return sorted(tests, key=lambda test: (files[file_of(test)], file_of(test), self.seconds[test]))


def file_of(test: str) -> str:
    return test.partition("::")[0]


def statement(source: str, line: int) -> range:
    """Lines of the innermost statement at this line; of an `if`, a `def` and the like only those before the body."""
    found = range(line, line + 1)
    for node in ast.walk(ast.parse(source)):  # outer statements come first
        if isinstance(node, ast.stmt) and node.end_lineno is not None:
            first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])
            body = getattr(node, "body", None)
            end = max(body[0].lineno, node.lineno + 1) if body else node.end_lineno + 1
            if first <= line < end:
                found = range(first, end)
    return found


# --- making mutants ---


class WithoutAnnotations(ast.NodeTransformer):
    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        node.returns = None
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AsyncFunctionDef:
        self.generic_visit(node)
        node.returns = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AnnAssign:
        self.generic_visit(node)
        node.annotation = ast.Constant(0)
        return node


def what_runs(source: str) -> str:
    return ast.dump(WithoutAnnotations().visit(ast.parse(source)))


def places(package: str) -> list[tuple[str, str, int]]:
    """(path, operator, number of the place in the file) of each change that cosmic-ray can make in a package."""
    from cosmic_ray import plugins
    from cosmic_ray.ast import ast_nodes, get_ast

    operators = {}
    for name in sorted(plugins.operator_names()):
        with suppress(TypeError):  # operators that need arguments are left out
            operators[name] = plugins.get_operator(name)()
    found = []
    for path in sorted((ROOT / package).glob("*.py")):
        nodes = list(ast_nodes(get_ast(path.read_text(encoding="utf-8"))))
        for name, operator in operators.items():
            count = sum(len(list(operator.mutation_positions(node))) for node in nodes)
            found += [(str(path.relative_to(ROOT)), name, one) for one in range(count)]
    return found


def mutant(path: str, operator: str, which: int) -> Mutant | None:
    """The mutant with this change; None if the change affects only annotations or nothing."""
    from cosmic_ray import plugins
    from cosmic_ray.mutating import mutate_code

    source = (ROOT / path).read_text(encoding="utf-8")
    changed = mutate_code(source, plugins.get_operator(operator)(), which)
    if changed is None:
        return None
    try:
        if what_runs(changed) == what_runs(source):
            return None
    except SyntaxError:
        return None
    before, after = source.splitlines(keepends=True), changed.splitlines(keepends=True)
    differing = (i for i, (old, new) in enumerate(zip(before, after, strict=False)) if old != new and old.strip())
    line = next(differing, 0) + 1
    diff = "".join(list(difflib.unified_diff(before, after, n=1))[2:])
    return Mutant(path, line, operator.rpartition("/")[2], changed, diff)


def sample(package: str, size: int, seed: int) -> tuple[int, list[Mutant]]:
    """(number of places in a package, `size` mutants drawn from them at random)."""
    found = places(package)
    order = random.Random(seed).sample(found, len(found))  # noqa: S311 - no secret
    drawn: list[Mutant] = []
    while order and len(drawn) < size:
        one = mutant(*order.pop())
        if one is not None:
            drawn.append(one)
    return len(found), drawn


# --- running tests ---


def forked(work: Callable[[], int], log: Path, cpu_seconds: float) -> int:
    """Run `work` in a forked process with limits; returns the exit status, 0 if `work` returned 0."""
    child = os.fork()
    if child == 0:
        code = BROKEN
        try:
            os.setsid()
            signal.alarm(RUN_SECONDS)
            resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_seconds), int(cpu_seconds) + 5))
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(output, 1)
            os.dup2(output, 2)
            code = work()
        except BaseException:  # noqa: BLE001 - the parent tells
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # processes that its tests left running
    return status


def pytest_in(tree: Path, arguments: list[str], plugin: object) -> int:
    os.chdir(tree)
    sys.path[0] = str(tree)
    os.environ["PYTHONPATH"] = str(tree)
    usual = ["-x", "-q", "-m", "not system", "--assert=plain", "--hypothesis-seed=0", f"--timeout={TEST_SECONDS}"]
    usual.append(f"--basetemp={tree}.tmp")
    without = [word for name in ("cacheprovider", "xdist", "cov") for word in ("-p", f"no:{name}")]
    return int(pytest.main([*usual, *without, *arguments], plugins=[plugin]))


class Watch:
    """A pytest plugin that notes how long each test takes, and tells coverage which test is running."""

    def __init__(self, watched: coverage.Coverage, package: str) -> None:
        self.seconds: dict[str, float] = {}
        self._watched = watched
        self._package = "kproxy." + package.removeprefix("kproxy/").replace("/", ".")
        self._caches: list[Any] = []

    def pytest_collection_finish(self) -> None:
        """Find the caches of tests and package, which are cleared before each test.

        A test that is served from a cache would seem not to run the lines that filled it.
        """
        self._caches = [
            one
            for one in gc.get_objects()
            if isinstance(one, functools._lru_cache_wrapper)  # noqa: SLF001 - the type has no other name
            and str(one.__module__).startswith(("tests.", self._package))
        ]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None]:
        for one in self._caches:
            one.cache_clear()
        self._watched.switch_context(file_of(item.nodeid))  # the file's name, because other tests may share the fixture
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None]:
        self._watched.switch_context(item.nodeid)
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None]:
        self._watched.switch_context(file_of(item.nodeid))
        return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0) + report.duration


class Chosen:
    """A pytest plugin that runs only these tests, in this order."""

    def __init__(self, tests: list[str]) -> None:
        self._order = {test: i for i, test in enumerate(tests)}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        kept = [item for item in items if item.nodeid in self._order]
        items[:] = sorted(kept, key=lambda item: self._order[item.nodeid])


def learn(tree: Path, package: str, tests: list[str]) -> Known:
    """Run the tests without a change; returns what they show. Exits if one fails."""
    told = tree.with_suffix(".json")

    def work() -> int:
        watched = coverage.Coverage(data_file=None, include=[f"{tree}/{package}/*"], config_file=False)
        watch = Watch(watched, package)
        watched.start()
        code = pytest_in(tree, tests, watch)
        watched.stop()
        data = watched.get_data()
        lines = {
            str(Path(path).resolve().relative_to(tree)): data.contexts_by_lineno(path) for path in data.measured_files()
        }
        own = ("kproxy", "tests", "tools", "__main__", "conftest")
        modules = [name for name in sys.modules if name.partition(".")[0] not in own]
        told.write_text(json.dumps([watch.seconds, lines, modules]), encoding="utf-8")
        return code

    log = tree.with_suffix(".log")
    if forked(work, log, RUN_SECONDS):
        sys.exit(f"{log.read_text(encoding='utf-8', errors='replace')[-3000:]}\nthe tests fail without any change")
    seconds, lines, modules = json.loads(told.read_text(encoding="utf-8"))
    by_line = {path: {int(line): set(names) for line, names in table.items()} for path, table in lines.items()}
    return Known(seconds, by_line, modules)


_tree = ROOT
"""The copy of the tree that this worker changes."""


def take_a_tree(trees: Any) -> None:
    global _tree  # noqa: PLW0603 - one for each worker process
    _tree = trees.get()


def judge(one: Mutant, tests: list[str], cpu_seconds: float) -> Verdict:
    if not tests:
        return Verdict(killed=False, how="no test runs it")
    target = _tree / one.path
    unchanged = target.read_bytes()
    shutil.rmtree(target.parent / "__pycache__", ignore_errors=True)
    target.write_text(one.source, encoding="utf-8")
    log = _tree.with_suffix(".log")
    began = time.monotonic()
    files = list(dict.fromkeys(map(file_of, tests)))

    def work() -> int:
        # Python compares modification times in seconds, so the bytecode of one mutant could be taken for that of the
        # next.
        sys.dont_write_bytecode = True
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        return pytest_in(_tree, files, Chosen(tests))

    try:
        status = forked(work, log, cpu_seconds)
    finally:
        target.write_bytes(unchanged)
    took = f"{time.monotonic() - began:.1f} s"
    if not status:
        return Verdict(killed=False, how=f"{len(tests)} tests, {took}")
    if os.WIFSIGNALED(status):
        return Verdict(killed=True, how=f"by signal {os.WTERMSIG(status)}, {took}")
    text = log.read_text(encoding="utf-8", errors="replace")
    if os.WEXITSTATUS(status) == BROKEN:
        raise RuntimeError(text)
    failed = next((line for line in text.splitlines() if line.startswith(("FAILED ", "ERROR "))), "ends with an error")
    return Verdict(killed=True, how=f"{failed[:150]}, {took}")


def judged(known: Known, mutants: list[Mutant], trees: list[Path]) -> Iterator[tuple[Mutant, Verdict]]:
    """Try the mutants in copies of the tree; yields each with its verdict, in the order in which they were drawn."""
    context = get_context("fork")
    free = context.Queue()
    for tree in trees:
        free.put(tree)
    with ProcessPoolExecutor(len(trees), context, take_a_tree, (free,)) as workers:
        waiting = []
        for one in mutants:
            tests = known.tests(one, (ROOT / one.path).read_text(encoding="utf-8"))
            cpu_seconds = CPU_SECONDS + 5 * sum(known.seconds[test] for test in tests)
            waiting.append((one, workers.submit(judge, one, tests, cpu_seconds)))
        for one, result in waiting:
            yield one, result.result()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.mutation", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("package", help="a folder, such as captures/tcp")
    parser.add_argument("tests", nargs="*", help="files or folders of tests (default: the folder below tests/)")
    parser.add_argument("--sample", type=int, default=100, help="how many mutants to try")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    package = options.package.rstrip("/")
    try:
        importlib.import_module("cosmic_ray")
    except ImportError:
        sys.exit("cosmic-ray makes the changes and is not installed: pip install cosmic-ray")
    count, mutants = sample(package, options.sample, options.seed)
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        trees = [Path(folder).resolve() / f"tree{i}" for i in range(options.jobs)]
        shutil.copytree(ROOT, trees[0], symlinks=True, ignore=shutil.ignore_patterns(*LEFT_OUT))
        known = learn(trees[0], package, options.tests or [f"tests/{package}"])
        for tree in trees[1:]:
            shutil.copytree(trees[0], tree, symlinks=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name in known.modules:  # imported once here, instead of for each mutant
                with suppress(ImportError):
                    importlib.import_module(name)
        print(f"{package}: {count} places to change, {len(known.seconds)} tests", flush=True)
        killed = 0
        for one, verdict in judged(known, mutants, trees):
            killed += verdict.killed
            word = "killed" if verdict.killed else "SURVIVED"
            print(f"{word} {one.path}:{one.line} {one.operator}: {verdict.how}", flush=True)
            if not verdict.killed:
                print(one.diff, flush=True)
        print(f"{package}: {killed} of {len(mutants)} killed, {killed / len(mutants):.0%} (seed {options.seed})")


if __name__ == "__main__":
    main()

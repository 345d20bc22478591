"""pgx, pgjdbc and node-postgres: a small program each, which does the same steps and says after each that it is done."""

import shutil
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.timeout(900)
def test_pgx(need, run, steps, herd, tmp_path):
    need("go")
    run("go", "build", "-o", tmp_path / "pgx-steps", ".", cwd=HERE / "go", seconds_max=800)
    steps(run(tmp_path / "pgx-steps", DATABASE_URL=herd.url))


@pytest.mark.timeout(900)
def test_pgjdbc(need, run, steps, herd, tmp_path):
    need("java", "mvn")
    run("mvn", "-q", "-B", "-f", HERE / "java" / "pom.xml", "dependency:copy-dependencies", f"-DoutputDirectory={tmp_path}", seconds_max=800)
    program = HERE / "java" / "Steps.java"
    url = f"jdbc:postgresql://{herd.host}:{herd.port}/{herd.dbname}?user={herd.user}&sslmode=disable"
    steps(run("java", "-cp", f"{tmp_path}/*", program, url))


@pytest.mark.timeout(900)
def test_node_postgres(need, run, steps, herd, tmp_path):
    need("node", "npm")
    for name in ("package.json", "steps.js"):
        shutil.copy(HERE / "node" / name, tmp_path)
    run("npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts", cwd=tmp_path, seconds_max=800)
    steps(run("node", "steps.js", cwd=tmp_path, DATABASE_URL=herd.url))

"""Workflows, locks, images, licenses: what others publish is taken by its digest, with no more rights than needed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
IMAGE = re.compile(r"[\w./-]+:[\w.-]+@sha256:[0-9a-f]{64}")


def workflow(path: Path) -> dict[Any, Any]:
    return yaml.safe_load(path.read_text("utf-8"))


def jobs(path: Path) -> list[Any]:
    return list(workflow(path)["jobs"].items())


def steps(path: Path) -> list[dict[str, Any]]:
    return [step for _, job in jobs(path) for step in job.get("steps", [])]


def pins(path: Path) -> dict[str, str]:
    """Return the versions `name==version` of a file, by the name as the index has it."""
    found = re.findall(r"(?m)^([\w.-]+)==([\w.]+)", path.read_text("utf-8"))
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in found}


@pytest.fixture(scope="module")
def constraints() -> dict[str, str]:
    return pins(ROOT / "constraints.txt")


@pytest.fixture(scope="module")
def lock() -> dict[str, str]:
    return pins(ROOT / "requirements.lock")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
class TestWorkflow:
    def test_actions_are_pinned_by_digest(self, path: Path) -> None:
        lines = re.findall(r"(?m)^ *(?:- )?uses: *(.+)$", path.read_text("utf-8"))
        own = [line for line in lines if line.startswith("./")]
        for line in own:
            assert (ROOT / line.split(" #")[0]).is_file(), line
        for line in [line for line in lines if line not in own]:
            assert re.fullmatch(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), f"{line}: a tag can be moved"

    def test_each_job_has_the_rights_that_it_needs(self, path: Path) -> None:
        assert workflow(path)["permissions"] == {}, "a job that names none has none"
        for name, job in jobs(path):
            written = {right for right, access in job["permissions"].items() if access != "read"}
            assert written <= ({"id-token"} if name == "publish" else set()), name

    def test_no_token_stays_in_a_checkout(self, path: Path) -> None:
        for step in steps(path):
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False

    def test_each_job_ends(self, path: Path) -> None:
        assert all("timeout-minutes" in job for _, job in jobs(path) if "uses" not in job)

    def test_nobody_elses_text_becomes_a_command(self, path: Path) -> None:
        triggers = workflow(path)[True]  # "on" is true in YAML 1.1
        assert not {"pull_request_target", "workflow_run", "issue_comment"} & set(triggers)
        assert not [step["run"] for step in steps(path) if "${{" in step.get("run", "")]


def test_an_action_has_one_digest() -> None:
    uses = {step["uses"] for path in WORKFLOWS for step in steps(path) if "uses" in step}
    names = [use.split("@")[0] for use in uses]
    assert len(names) == len(set(names)), sorted(uses)


def test_a_release_waits_for_the_checks() -> None:
    release = workflow(ROOT / ".github/workflows/release.yml")["jobs"]
    assert release["check"]["uses"] == "./.github/workflows/check.yml"
    assert "workflow_call" in workflow(ROOT / ".github/workflows/check.yml")[True]
    assert set(release["publish"]["needs"]) == set(release) - {"publish"}
    assert "if" not in release["check"]
    assert release["publish"]["if"] == "startsWith(github.ref, 'refs/tags/v')"


def test_what_publishes_has_no_secret_and_runs_nothing_of_the_repository() -> None:
    publish = workflow(ROOT / ".github/workflows/release.yml")["jobs"]["publish"]
    assert publish["permissions"] == {"id-token": "write"}
    assert publish["environment"] == "pypi"
    assert [step["uses"].split("@")[0] for step in publish["steps"]] == [
        "actions/download-artifact",
        "pypa/gh-action-pypi-publish",
    ]
    assert publish["steps"][-1]["with"] == {"attestations": True}
    assert "secrets." not in "".join(path.read_text("utf-8") for path in WORKFLOWS)


def test_a_release_installs_nothing_that_is_not_pinned() -> None:
    runs = [step.get("run", "") for step in steps(ROOT / ".github/workflows/release.yml")]
    commands = [run for run in runs if "pip install" in run]
    assert len(commands) == 3
    for command in commands:
        assert "--require-hashes" in command or "-c constraints.txt" in command
    build = PROJECT["tool"]["cibuildwheel"]
    assert "--require-hashes" in build["before-build"]
    assert build["build-frontend"]["args"] == ["--no-isolation"]


def test_each_version_of_the_lock_has_hashes(lock: dict[str, str]) -> None:
    entries = re.split(r"(?m)^(?=[\w.-]+==)", (ROOT / "requirements.lock").read_text("utf-8"))[1:]
    assert len(entries) == len(lock) > 20
    for entry in entries:
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", entry), entry


def test_the_lock_has_the_tools(lock: dict[str, str]) -> None:
    tools = re.findall(r"(?m)^[\w-]+$", (ROOT / "requirements.in").read_text("utf-8"))
    assert {"build", "cibuildwheel", "setuptools"} <= set(tools) <= set(lock), "make lock"


def test_lock_and_constraints_agree(lock: dict[str, str], constraints: dict[str, str]) -> None:
    shared = lock.keys() & constraints.keys()
    assert len(shared) > 5
    assert {name: lock[name] for name in shared} == {name: constraints[name] for name in shared}, "make lock"
    assert "--hash" not in (ROOT / "constraints.txt").read_text("utf-8"), "a hash breaks `pip install -c` of a clone"


def test_other_files_have_the_versions_of_both(lock: dict[str, str], constraints: dict[str, str]) -> None:
    hooks = (ROOT / ".pre-commit-config.yaml").read_text("utf-8")
    pinned = [*PROJECT["tool"]["cibuildwheel"]["test-requires"], *re.findall(r"[\w-]+==[\w.]+", hooks)]
    assert len(pinned) == 3
    for requirement in pinned:
        name, version = requirement.split("==")
        assert (constraints | lock)[name] == version


def test_images_are_pinned_by_digest() -> None:
    stages = re.findall(r"(?m)^FROM (\S+)", (ROOT / "Dockerfile").read_text("utf-8"))
    services = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text("utf-8"))["services"].values()
    images = [*stages, *(service["image"] for service in services if "image" in service)]
    assert len(images) == 4
    assert [image for image in images if not IMAGE.fullmatch(image)] == []


def test_the_image_has_no_shell_no_compiler_no_rights_and_checks_its_health() -> None:
    text = re.sub(r"\\\n *", "", (ROOT / "Dockerfile").read_text("utf-8"))
    _, build, last = text.split("\nFROM ")
    instructions = dict(re.findall(r"(?m)^([A-Z]+) (.+)$", last))
    assert last.startswith("gcr.io/distroless/python3-debian12:nonroot@")
    assert "RUN" not in instructions, "there is no shell"
    assert re.findall(r"(?m)^COPY (.+)$", last) == ["--from=build /app /app"], "compilers and sources stay behind"
    assert instructions["USER"] == "65532:65532", "by number: Kubernetes cannot know others not to be root"
    assert all(json.loads(instructions[name]) for name in ("ENTRYPOINT", "CMD"))
    check = re.search(r"CMD (\[.*\])", instructions["HEALTHCHECK"])
    assert check
    assert "/readyz" in json.loads(check[1])[-1]
    assert '-c constraints.txt --target /app ".[$EXTRAS]"' in build
    extras = PROJECT["project"]["optional-dependencies"]
    assert not any(
        name.startswith(("torch", "mixling[")) for name in [*PROJECT["project"]["dependencies"], *extras["serve"]]
    )


def test_what_the_image_is_made_of_is_there_and_nothing_else() -> None:
    lines = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    kept = [rule[1:] for rule in rules if rule.startswith("!")]
    assert [name for name in kept if not (ROOT / name).exists()] == []
    read = {
        "setup.py",
        "pyproject.toml",
        "constraints.txt",
        "deploy/prune.sh",
        "src",
        *PROJECT["project"]["license-files"],
    }
    assert {name for name in read if name.split("/")[0] != "src"} <= set(kept)
    assert PROJECT["project"]["readme"] in kept


def test_services_of_the_example_have_no_rights() -> None:
    services = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text("utf-8"))["services"]
    for name, service in services.items():
        assert (service["cap_drop"], service["security_opt"]) == (["ALL"], ["no-new-privileges:true"]), name
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ())), name
        assert all(volume.endswith(":ro") for volume in service.get("volumes", ())), name
    assert services["mixling"]["read_only"] is True


def test_updates_are_proposed_for_all_that_is_pinned() -> None:
    updates = workflow(ROOT / ".github/dependabot.yml")["updates"]
    assert {(update["package-ecosystem"], update["directory"]) for update in updates} == {
        ("docker", "/"),
        ("docker-compose", "/deploy"),
        ("github-actions", "/"),
        ("pip", "/"),
    }
    assert all(update["cooldown"]["default-days"] >= 7 for update in updates)


def test_the_notices_of_others_are_in_every_package() -> None:
    notice = ROOT / "src/mixling/browser/package/NOTICE.txt"
    text = notice.read_text("utf-8")
    tables = (ROOT / "src/mixling/native/unicode_tables.inc").read_text("utf-8")
    version = re.match(r"/\* Unicode (\d+\.\d+)", tables)
    assert version, tables[:80]
    assert f"Unicode Character Database, version {version[1]}" in text
    assert "UNICODE LICENSE V3\n\nCOPYRIGHT AND PERMISSION NOTICE\n\nCopyright © 1991-2023 Unicode, Inc." in text
    for other in ("musl", "Sun Microsystems, Inc."):
        assert other in text
    for name in re.findall(r"src/[\w./]+", text):
        assert (ROOT / name).is_file(), name
    assert PROJECT["project"]["license-files"] == ["LICENSE", notice.relative_to(ROOT).as_posix()]
    assert "browser/package/*" in PROJECT["tool"]["setuptools"]["package-data"]["mixling"]
    package = json.loads((ROOT / "web/package.json").read_text("utf-8"))
    assert "dist" in package["files"]
    assert '"../src/mixling/browser/package"), at("dist")' in (ROOT / "web/prepack.js").read_text("utf-8")


def test_a_wheel_has_the_licenses(tmp_path: Path) -> None:
    """The hook of setuptools that `pip wheel` calls writes them beside the metadata."""
    pytest.importorskip("setuptools", minversion="77")
    copy, out = tmp_path / "copy", tmp_path / "out"
    out.mkdir()
    licenses = PROJECT["project"]["license-files"]
    for name in ("pyproject.toml", "README.md", "src/mixling/version.py", "src/mixling/__init__.py", *licenses):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_bytes((ROOT / name).read_bytes())
    hook = "import sys, setuptools.build_meta as hooks; print(hooks.prepare_metadata_for_build_wheel(sys.argv[1]))"
    done = subprocess.run([sys.executable, "-c", hook, out], cwd=copy, capture_output=True, text=True, check=True)
    for name in licenses:
        assert (out / done.stdout.split()[-1] / "licenses" / name).read_bytes() == (ROOT / name).read_bytes()

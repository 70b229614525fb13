"""The recipes for many nodes under Kubernetes: no cluster runs them here, so their fields count."""

from __future__ import annotations

import itertools
import shlex
from typing import Any

import pytest
import yaml

from gputop.commands.asking import load
from tests.support.places import ROOT

FOLDER = ROOT / "recipes" / "kubernetes"
CONTAINER = {"name", "image", "command", "env", "resources", "volumeMounts"}


FIELDS = {
    "Job": {
        "activeDeadlineSeconds", "backoffLimit", "backoffLimitPerIndex", "completionMode",
        "completions", "parallelism", "template", "ttlSecondsAfterFinished",
    },
    "DaemonSet": {"selector", "template", "updateStrategy"},
    "pod": {
        "affinity", "containers", "nodeSelector", "restartPolicy", "runtimeClassName",
        "terminationGracePeriodSeconds", "tolerations", "volumes",
    },
}  # fmt: skip
"""Fields of their `spec` in the API of Kubernetes, among them all that the recipes have."""


def recipe(name: str) -> dict[str, Any]:
    (found,) = yaml.safe_load_all((FOLDER / name).read_text())
    assert isinstance(found, dict)
    return found


def checked_container(pod: dict[str, Any]) -> str:
    """The container's command line, after what holds for every pod that checks its node."""
    (container,) = pod["containers"]
    assert container.keys() <= CONTAINER
    named = {item["name"]: item for item in container["env"]}
    # A pod's own host name says nothing of its node.
    assert named["GPUTOP_NODE"]["valueFrom"] == {"fieldRef": {"fieldPath": "spec.nodeName"}}
    assert all(isinstance(item.get("value", ""), str) for item in container["env"])
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts.keys() == {volume["name"] for volume in pod["volumes"]}
    shell, flag, line = map(str, container["command"])
    assert (shell, flag) == ("sh", "-c")
    words = shlex.split(line)
    assert words[words.index("-o") + 1].startswith(f"{mounts['checks']}/%n.")
    return line


@pytest.mark.parametrize("name", ["fleet-job.yaml", "fleet-daemonset.yaml"])
def test_options_are_those_of_the_command(name: str) -> None:
    line = checked_container(recipe(name)["spec"]["template"]["spec"]).replace(";", " ; ")
    words = shlex.split(line)
    after = words[words.index("check") + 1 :]
    given = itertools.takewhile(lambda word: word not in ("||", ";"), after)
    # As the command itself reads them.
    found = load("check").make_context("check", list(given)).params
    assert (found["quick"], found["output"]) == (True, "/checks/%n.json.gz")
    assert 0 < found["deadline"] <= 60


@pytest.mark.parametrize("name", ["fleet-job.yaml", "fleet-daemonset.yaml"])
def test_no_field_is_misspelt(name: str) -> None:
    found = recipe(name)
    assert found.keys() == {"apiVersion", "kind", "metadata", "spec"}
    assert found["spec"].keys() <= FIELDS[found["kind"]]
    template = found["spec"]["template"]
    assert template.keys() == {"metadata", "spec"}
    assert template["spec"].keys() <= FIELDS["pod"]


def test_the_job_takes_each_node_once_and_outlives_a_lost_one() -> None:
    job = recipe("fleet-job.yaml")
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "Job")
    spec = job["spec"]
    assert spec["completions"] == spec["parallelism"]
    assert spec["completionMode"] == "Indexed"
    assert spec["backoffLimitPerIndex"] == 0
    assert "backoffLimit" not in spec
    pod = spec["template"]["spec"]
    assert pod["restartPolicy"] == "Never"
    (apart,) = pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert apart["topologyKey"] == "kubernetes.io/hostname"
    assert apart["labelSelector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
    line = checked_container(pod)
    assert line.endswith("|| true")
    words = shlex.split(line)
    assert spec["activeDeadlineSeconds"] > int(words[words.index("--deadline") + 1])


def test_the_daemon_set_takes_no_gpu_and_reaches_tainted_nodes() -> None:
    daemons = recipe("fleet-daemonset.yaml")
    assert (daemons["apiVersion"], daemons["kind"]) == ("apps/v1", "DaemonSet")
    template = daemons["spec"]["template"]
    assert daemons["spec"]["selector"]["matchLabels"] == template["metadata"]["labels"]
    pod = template["spec"]
    assert pod["tolerations"] == [{"operator": "Exists"}]
    assert "resources" not in pod["containers"][0]
    assert "restartPolicy" not in pod
    assert "--quick" in checked_container(pod)

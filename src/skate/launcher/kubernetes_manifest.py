"""The manifests of a cluster on Kubernetes, as records and as YAML: a head, its service, and workers."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

TOKEN_FOLDER = "/var/run/secrets/skate"
TOKEN_BITS = 256
STATE_FOLDER = "/var/lib/skate"
PORT = 6379
#: How long a member is drained before its pod ends; a little longer until Kubernetes kills it.
DRAIN_S = 25
GRACE_S = 35
#: How long workers continue without the head: a volume may have to be attached to another machine first.
STATE_GRACE_S = 300

Manifest = dict[str, Any]


@dataclass(frozen=True)
class Cluster:
    """A cluster on Kubernetes; amounts are for each pod.

    Attributes:
        name: the prefix of all names.
        image: an image in which `skate` with the extra `cluster` is installed.
        workers: the number of worker pods.
        cpus: CPUs of a worker.
        memory: memory of a worker, in Kubernetes' form, such as "16Gi".
        gpus: GPUs of a worker (`nvidia.com/gpu`).
        head_cpus, head_memory: those of the head.
        head_storage: the size of the volume for the state of the head.
        storage_class: the class of that volume; by default that of the cluster.
        state_store: the address of etcd, such as "etcd://etcd.lab:2379/skate". The state is kept there instead of on a
            volume, and a second head stands by on another machine.
        namespace: by default that of kubectl.
    """

    name: str
    image: str
    workers: int = 2
    cpus: int = 4
    memory: str = "16Gi"
    gpus: int = 0
    head_cpus: int = 2
    head_memory: str = "8Gi"
    head_storage: str = "1Gi"
    storage_class: str | None = None
    state_store: str | None = None
    namespace: str | None = None


def manifests(cluster: Cluster, with_secret: bool = False) -> list[Manifest]:
    """Return the manifests in the order in which they are applied; with `with_secret`, a new token comes first.

    Raises ValueError for names and amounts that Kubernetes would refuse.
    """
    _check(cluster)
    return [
        *([_secret(cluster)] if with_secret else []),
        _service(cluster),
        *([_pod_names(cluster)] if cluster.state_store else []),
        _head(cluster),
        _workers(cluster),
    ]


def text(cluster: Cluster, with_secret: bool = False) -> str:
    """Return the manifests as YAML for `kubectl apply -f -`. Raises ValueError."""
    try:
        import yaml  # `import skate` must not require it
    except ImportError:
        raise ValueError("manifests need PyYAML: pip install 'skate[cluster]'") from None
    found: str = yaml.safe_dump_all(manifests(cluster, with_secret), sort_keys=False)
    return found


def _check(cluster: Cluster) -> None:
    if not re.fullmatch(r"[a-z]([a-z0-9-]{0,40}[a-z0-9])?", cluster.name):
        raise ValueError(
            f"name={cluster.name!r}: use at most 42 small letters, digits and '-', beginning with a letter"
        )
    if not cluster.image or not re.fullmatch(r"[\w.:/@-]+", cluster.image):
        raise ValueError(f"image={cluster.image!r} is not the name of an image")
    for name, least in (("workers", 0), ("cpus", 1), ("gpus", 0), ("head_cpus", 0)):
        if getattr(cluster, name) < least:
            raise ValueError(f"{name}={getattr(cluster, name)}: at least {least} is needed")
    if cluster.storage_class is not None and not re.fullmatch(r"[a-z0-9][a-z0-9.-]*", cluster.storage_class):
        raise ValueError(f"storage_class={cluster.storage_class!r} is not the name of a StorageClass")
    if cluster.state_store is not None and not re.fullmatch(
        r"etcd://[\w.:,\[\]-]+/[\w./-]+", cluster.state_store
    ):
        raise ValueError(f"state_store={cluster.state_store!r}: write it as etcd://HOST:2379/CLUSTER")
    if cluster.state_store is not None and cluster.storage_class is not None:
        raise ValueError(
            "storage_class is for a volume with the state of the head; state_store keeps it in etcd"
        )
    for name in ("memory", "head_memory", "head_storage"):
        if not re.fullmatch(r"\d+(\.\d+)?(Ki|Mi|Gi|Ti|k|M|G|T)?", getattr(cluster, name)):
            raise ValueError(f"{name}={getattr(cluster, name)!r}: write it as 16Gi")


def _metadata(cluster: Cluster, suffix: str) -> Manifest:
    found: Manifest = {
        "name": f"{cluster.name}-{suffix}",
        "labels": {"app.kubernetes.io/name": "skate", "skate": cluster.name},
    }
    return found if cluster.namespace is None else {**found, "namespace": cluster.namespace}


def _secret(cluster: Cluster) -> Manifest:
    token = secrets.token_hex(TOKEN_BITS // 8)
    return {
        "apiVersion": "v1", "kind": "Secret", "metadata": _metadata(cluster, "token"), "type": "Opaque",
        "stringData": {"token": token},
    }  # fmt: skip


def _service(cluster: Cluster) -> Manifest:
    """Return the service that leads to the head."""
    # Workers may connect before the probe has found the head ready. A standby is never ready, and must not be found.
    return _service_of_heads(cluster, "head", {"publishNotReadyAddresses": cluster.state_store is None})


def _pod_names(cluster: Cluster) -> Manifest:
    """Return the service that gives each of the two heads a name, which the other nodes try in turn."""
    return _service_of_heads(cluster, "heads", {"clusterIP": "None", "publishNotReadyAddresses": True})


def _service_of_heads(cluster: Cluster, suffix: str, options: Manifest) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(cluster, suffix),
        "spec": {
            "selector": {"skate": cluster.name, "skate-role": "head"},
            "ports": [{"name": "cluster", "port": PORT, "targetPort": PORT}],
            **options,
        },
    }


def _head_addresses(cluster: Cluster) -> str:
    if cluster.state_store is None:
        return f"{cluster.name}-head:{PORT}"
    return ",".join(f"{cluster.name}-head-{number}.{cluster.name}-heads:{PORT}" for number in range(2))


def _head(cluster: Cluster) -> Manifest:
    words = [
        "skate", "start", "--head", f"--port={PORT}", f"--num-cpus={cluster.head_cpus}", "--num-gpus=0",
        f"--state-grace={STATE_GRACE_S}", "--block",
    ]  # fmt: skip
    limits = {"cpu": str(max(cluster.head_cpus, 1)), "memory": cluster.head_memory}
    if cluster.state_store is None:
        pod = _pod(cluster, "head", [*words, f"--state-dir={STATE_FOLDER}/state"], limits)
        # Of a StatefulSet there is never a second pod beside the first: two heads would be two clusters.
        found = _workload(cluster, "StatefulSet", "head", 1, pod)
        found["spec"]["serviceName"] = f"{cluster.name}-head"
        _add_volume(cluster, found)
        return found
    pod = _pod(cluster, "head", [*words, f"--state-store={cluster.state_store}", "--standby"], limits)
    pod["affinity"] = {
        "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [_other_machine(cluster)]}
    }
    found = _workload(cluster, "StatefulSet", "head", 2, pod)
    # The pod that stands by is no node, so it is not ready: neither a start nor an update may wait for that.
    found["spec"] |= {
        "serviceName": f"{cluster.name}-heads",
        "podManagementPolicy": "Parallel",
        "updateStrategy": {"type": "OnDelete"},
    }
    return found


def _other_machine(cluster: Cluster) -> Manifest:
    labels = {"skate": cluster.name, "skate-role": "head"}
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}
    return {"weight": 100, "podAffinityTerm": term}


def _add_volume(cluster: Cluster, head: Manifest) -> None:
    (container,) = head["spec"]["template"]["spec"]["containers"]
    container["volumeMounts"].append({"name": "state", "mountPath": STATE_FOLDER})
    claim: Manifest = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": cluster.head_storage}},
    }
    if cluster.storage_class is not None:
        claim["storageClassName"] = cluster.storage_class
    head["spec"] |= {
        # The state ends with the cluster, not with a pod.
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Retain"},
        "volumeClaimTemplates": [{"metadata": {"name": "state"}, "spec": claim}],
    }


def _workers(cluster: Cluster) -> Manifest:
    words = [
        "skate", "start", f"--address={_head_addresses(cluster)}", "--timeout=300", f"--num-cpus={cluster.cpus}",
        f"--num-gpus={cluster.gpus}", "--block",
    ]  # fmt: skip
    limits = {"cpu": str(cluster.cpus), "memory": cluster.memory}
    if cluster.gpus:
        limits["nvidia.com/gpu"] = str(cluster.gpus)
    pod = _pod(cluster, "worker", words, limits)
    return _workload(cluster, "Deployment", "worker", cluster.workers, pod)


def _pod(cluster: Cluster, role: str, words: list[str], limits: dict[str, str]) -> Manifest:
    container = {
        "name": "skate",
        "image": cluster.image,
        "args": [*words, "--node-ip-address=$(POD_IP)"],
        "env": [
            {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "SKATE_AUTH_TOKEN_PATH", "value": f"{TOKEN_FOLDER}/token"},
        ],
        "resources": {"requests": limits, "limits": limits},
        "readinessProbe": {
            "exec": {"command": ["skate", "health-check"]}, "periodSeconds": 10, "timeoutSeconds": 10,
        },
        "volumeMounts": [{"name": "token", "mountPath": TOKEN_FOLDER, "readOnly": True}],
    }  # fmt: skip
    if role == "head":
        container["ports"] = [{"name": "cluster", "containerPort": PORT}]
    else:
        container["lifecycle"] = {
            "preStop": {"exec": {"command": ["skate", "stop", f"--grace-period={DRAIN_S}"]}}
        }
    return {
        "terminationGracePeriodSeconds": GRACE_S,
        "automountServiceAccountToken": False,
        "containers": [container],
        "volumes": list(_volumes(cluster)),
    }


def _volumes(cluster: Cluster) -> Iterator[Manifest]:
    yield {"name": "token", "secret": {"secretName": f"{cluster.name}-token"}}


def _workload(cluster: Cluster, kind: str, role: str, replicas: int, pod: Manifest) -> Manifest:
    labels = {"skate": cluster.name, "skate-role": role}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": _metadata(cluster, role),
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": {**labels, "app.kubernetes.io/name": "skate"}}, "spec": pod},
        },
    }

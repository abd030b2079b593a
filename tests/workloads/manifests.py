"""Specs whose rendered pods are kept as golden files, by name."""

from typing import Final

MANIFESTS: Final = {
    "hf": "",
    "hf-private": """
        model: {source: "hf://meta-llama/Llama-3.1-8B-Instruct@0e9e39f", secretRef: {name: hub}, maxModelLen: 16384}
    """,
    "s3": """
        model: {source: "s3://weights/llama-3.1-8b", secretRef: {name: bucket-keys}}
    """,
    "s3-by-identity": """
        model: {source: "s3://weights/llama-3.1-8b"}
        pod: {serviceAccountName: weights-reader}
    """,
    "gs": """
        model: {source: "gs://weights/llama-3.1-8b", secretRef: {name: bucket-keys}}
    """,
    "oci": """
        model: {source: "oci://registry.example.com/models/llama-3.1-8b:1", secretRef: {name: registry-login}}
    """,
    "pvc": """
        model: {source: "pvc://weights/llama/3.1-8b"}
    """,
    "cache-pvc": """
        model: {source: "hf://Qwen/Qwen2.5-7B-Instruct", cache: {pvc: hub-cache}}
    """,
    "cache-node-path": """
        model: {source: "hf://Qwen/Qwen2.5-7B-Instruct", cache: {nodePath: /mnt/nvme/forebay}}
    """,
    "tensor-parallel": """
        model:
          source: hf://meta-llama/Llama-3.1-70B-Instruct
          quantization: fp8
          kvCacheDtype: fp8
          maxModelLen: 32768
        engine: {version: 0.33.0, tensorParallelSize: 4, gpuMemoryUtilizationPercent: 90, maxNumSeqs: 128}
        gpu: {product: NVIDIA-H100-80GB-HBM3}
        rollout: {drainTimeout: 10m}
    """,
    "all-parallel-sizes": """
        engine: {tensorParallelSize: 2, pipelineParallelSize: 2, dataParallelSize: 2}
        gpu: {resourceName: amd.com/gpu, nodeSelector: {amd.com/gpu.family: MI300X}}
    """,
    "engine-block": """
        engine:
          image: registry.example.com/vllm:v0.29.0-cu129
          startupTimeout: 1h
          extraArgs: [--enable-prefix-caching, --reasoning-parser, deepseek_r1]
          env: [{name: VLLM_LOGGING_LEVEL, value: DEBUG}, {name: HOME, value: /data}]
    """,
    "pod-block": """
        gpu: {product: NVIDIA-L40S}
        pod:
          resources: {cpu: "8", memory: 64Gi}
          nodeSelector: {topology.kubernetes.io/zone: eu-1a}
          tolerations: [{key: team, operator: Equal, value: a, effect: NoSchedule}]
          affinity:
            nodeAffinity:
              requiredDuringSchedulingIgnoredDuringExecution:
                nodeSelectorTerms:
                  - matchExpressions: [{key: node-class, operator: In, values: [gpu]}]
                  - matchExpressions: [{key: node-class, operator: DoesNotExist}]
          topologySpreadConstraints: [{topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}]
          serviceAccountName: chat
          imagePullSecrets: [registry-login]
          runtimeClassName: nvidia
          priorityClassName: serving
          volumes:
            - {name: adapters, mountPath: /adapters, pvc: adapters, readOnly: true}
            - {name: settings, mountPath: /settings, configMap: chat-settings}
            - {name: key, mountPath: /key, secret: chat-key, readOnly: true}
            - {name: scratch, mountPath: /scratch, emptyDir: true}
          envFrom: [{secret: chat-env}, {configMap: chat-env}]
          annotations: {example.com/team: a}
    """,
}

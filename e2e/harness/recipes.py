"""The sources of the cluster's parts, and how each part is compiled.

Every part comes from the Go module proxy at an exact version, verified by Go's checksum database, so that a machine
needs neither Docker nor published images. Five Kubernetes commands and kubectl share one binary: they are mostly the
same packages, so it costs little more to build than the API server alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

KUBERNETES = "1.35.4"
OLDEST_GO = (1, 26)
"""helm 4.3 requires it; the other parts would build with 1.25."""

Go = Callable[..., str]
"""Runs the go command in the module's folder and returns its output."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """One binary: where it comes from, the program that starts it, and the names it answers to."""

    name: str
    version: str
    module: str
    """Module path that is required at `version`; empty for a program that needs Go alone."""
    main: str
    """Go source of the program; empty when `package` is a program already."""
    package: str = "."
    link_flags: str = "-s -w"
    answers_to: tuple[str, ...] = ()
    """Links beside the binary, for one that chooses its command by the name it was called with."""
    staging: bool = False
    """Kubernetes keeps its libraries as folders of one repository and publishes them as modules of version 0.x."""

    def go_mod(self, go: Go) -> str:
        lines = [f"module forebay.dev/e2e/{self.name}", "", f"go {OLDEST_GO[0]}.{OLDEST_GO[1]}.0", ""]
        if self.module:
            lines.append(f"require {self.module} v{self.version}")
        lines += [f"replace {name} => {name} v0.{self.version.split('.', 1)[1]}" for name in self._staged(go)]
        return "\n".join(lines) + "\n"

    def _staged(self, go: Go) -> list[str]:
        if not self.staging:
            return []
        downloaded = json.loads(go("mod", "download", "-json", f"{self.module}@v{self.version}"))
        published = Path(downloaded["GoMod"]).read_text()
        return re.findall(r"^\s*(?:replace\s+)?(\S+) => \./staging/src/", published, re.MULTILINE)


KUBERNETES_MAIN = """\
package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/json/register"
	kubectl "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	var command *cobra.Command
	switch name := filepath.Base(os.Args[0]); name {
	case "kube-apiserver":
		command = apiserver.NewAPIServerCommand()
	case "kube-controller-manager":
		command = controllers.NewControllerManagerCommand()
	case "kube-scheduler":
		command = scheduler.NewSchedulerCommand()
	case "kube-proxy":
		command = proxy.NewProxyCommand()
	case "kubelet":
		command = kubelet.NewKubeletCommand(context.Background())
	case "kubectl":
		logs.GlogSetter(kubectl.GetLogVerbosity(os.Args))
		if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
			util.CheckErr(err)
		}
		return
	default:
		os.Stderr.WriteString(name + " is not a part of this binary\\n")
		os.Exit(2)
	}
	os.Exit(cli.Run(command))
}
"""

ETCD_MAIN = """\
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
"""

PAUSE_MAIN = """\
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM, syscall.SIGINT)
	<-asked
}
"""

_VERSION = "k8s.io/component-base/version"
_MAJOR, _MINOR, _PATCH = KUBERNETES.split(".")

KUBERNETES_PARTS = Recipe(
    name="kubernetes",
    version=KUBERNETES,
    module="k8s.io/kubernetes",
    main=KUBERNETES_MAIN,
    link_flags=(
        f"-s -w -X {_VERSION}.gitVersion=v{KUBERNETES} -X {_VERSION}.gitMajor={_MAJOR} -X {_VERSION}.gitMinor={_MINOR}"
    ),
    answers_to=(
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kube-proxy",
        "kubelet",
        "kubectl",
    ),
    staging=True,
)
ETCD = Recipe(name="etcd", version="3.6.5", module="go.etcd.io/etcd/server/v3", main=ETCD_MAIN)
# Newer kwok releases ask for a newer Go than this project does.
KWOK = Recipe(name="kwok", version="0.7.0", module="sigs.k8s.io/kwok", main="", package="sigs.k8s.io/kwok/cmd/kwok")
COREDNS = Recipe(
    name="coredns", version="1.14.7", module="github.com/coredns/coredns", main="", package="github.com/coredns/coredns"
)
HELM = Recipe(name="helm", version="4.3.2", module="helm.sh/helm/v4", main="", package="helm.sh/helm/v4/cmd/helm")
# The process that holds a pod's namespaces open.
PAUSE = Recipe(name="pause", version="1", module="", main=PAUSE_MAIN)

RECIPES = (KUBERNETES_PARTS, ETCD, KWOK, COREDNS, HELM, PAUSE)
CONTROL_PLANE = (KUBERNETES_PARTS, ETCD, KWOK)
NODES = (*CONTROL_PLANE, COREDNS, PAUSE)

// Command manifests renders the kustomization of deploy/kubernetes and checks every object
// against the types of Kubernetes: a field that there is not, or of another type, is an
// error, as are selectors and claims that find nothing, and network policies that admit others than
// documented.
//
// It needs no cluster and no network. `make manifests` runs it.
package main

import (
	"errors"
	"fmt"
	"os"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

func main() {
	dir := "../../deploy/kubernetes"
	if len(os.Args) > 1 {
		dir = os.Args[1]
	}
	n, err := check(dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, "manifests:", err)
		os.Exit(1)
	}
	fmt.Printf("%d objects are as Kubernetes has them\n", n)
}

// rendered is what a kustomization gives, by its types.
type rendered struct {
	sets     []apps.StatefulSet
	services []core.Service
	budgets  []policy.PodDisruptionBudget
	networks []networking.NetworkPolicy
}

// check renders and checks a directory, and returns how many objects there are.
func check(dir string) (int, error) {
	all, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return 0, err
	}
	var r rendered
	for _, res := range all.Resources() {
		text, err := res.AsYAML()
		if err != nil {
			return 0, err
		}
		if err := r.add(res.GetKind(), res.GetApiVersion(), text); err != nil {
			return 0, fmt.Errorf("%s %s: %w", res.GetKind(), res.GetName(), err)
		}
	}
	return all.Size(), r.agree()
}

// add decodes one object, strictly.
func (r *rendered) add(kind, version string, text []byte) error {
	switch kind + " " + version {
	case "StatefulSet apps/v1":
		return decode(text, &r.sets)
	case "Service v1":
		return decode(text, &r.services)
	case "PodDisruptionBudget policy/v1":
		return decode(text, &r.budgets)
	case "NetworkPolicy networking.k8s.io/v1":
		return decode(text, &r.networks)
	}
	return fmt.Errorf("is not expected: %s", version)
}

func decode[T any](text []byte, into *[]T) error {
	var object T
	if err := yaml.UnmarshalStrict(text, &object); err != nil {
		return err
	}
	*into = append(*into, object)
	return nil
}

// agree returns what does not fit together.
func (r *rendered) agree() error {
	if len(r.sets) != 1 {
		return fmt.Errorf("%d StatefulSets", len(r.sets))
	}
	set := r.sets[0]
	pod := labels.Set(set.Spec.Template.Labels)
	selects := func(what string, s *meta.LabelSelector) error {
		chosen, err := meta.LabelSelectorAsSelector(s)
		if err == nil && !chosen.Matches(pod) {
			err = errors.New("does not select the pods")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		return nil
	}
	problems := []error{selects("StatefulSet", set.Spec.Selector)}
	named := map[string]bool{}
	for _, s := range r.services {
		named[s.Name] = true
		problems = append(problems, selects("Service "+s.Name, &meta.LabelSelector{MatchLabels: s.Spec.Selector}))
		for _, p := range s.Spec.Ports {
			problems = append(problems, hasPort(set, "Service "+s.Name, p.TargetPort.String()))
		}
	}
	if !named[set.Spec.ServiceName] {
		problems = append(problems, fmt.Errorf("there is no Service %s", set.Spec.ServiceName))
	}
	for _, b := range r.budgets {
		problems = append(problems, selects("PodDisruptionBudget", b.Spec.Selector))
	}
	for _, n := range r.networks {
		problems = append(problems, selects("NetworkPolicy", &n.Spec.PodSelector))
		for _, rule := range n.Spec.Ingress {
			for _, p := range rule.Ports {
				problems = append(problems, hasPort(set, "NetworkPolicy", p.Port.String()))
			}
		}
	}
	problems = append(problems, r.admitsTheDocumented(set.Namespace, pod)...)
	return errors.Join(append(problems, mounted(set)...)...)
}

// hasPort reports whether the pod has a port of a name.
func hasPort(set apps.StatefulSet, who, name string) error {
	for _, c := range set.Spec.Template.Spec.Containers {
		for _, p := range c.Ports {
			if p.Name == name {
				return nil
			}
		}
	}
	return fmt.Errorf("%s: the pods have no port %q", who, name)
}

// mounted returns the mounts without a volume.
func mounted(set apps.StatefulSet) []error {
	there := map[string]bool{}
	for _, v := range set.Spec.Template.Spec.Volumes {
		there[v.Name] = true
	}
	for _, claim := range set.Spec.VolumeClaimTemplates {
		there[claim.Name] = true
	}
	var problems []error
	for _, c := range set.Spec.Template.Spec.Containers {
		for _, m := range c.VolumeMounts {
			if !there[m.Name] {
				problems = append(problems, fmt.Errorf("there is no volume %s", m.Name))
			}
		}
	}
	return problems
}

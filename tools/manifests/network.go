package main

import (
	"fmt"
	"slices"

	networking "k8s.io/api/networking/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// caller is a pod that connects to a node.
type caller struct {
	who       string
	namespace string // "": that of the nodes
	labels    labels.Set
	admitted  []string // names of ports; it is admitted to no other
}

// callers are those that deploy/kubernetes/network.yaml and docs/operations/install.md name, and some that they do not.
// The first is another node.
func callers(node labels.Set) []caller {
	client := labels.Set{"brokerd-client": "true", "app.kubernetes.io/name": "shop", "app.kubernetes.io/component": "web"}
	return []caller{
		{"another node", "", node, []string{"cluster", "http"}},
		{"a client", "", client, []string{"tcp", "http", "lookup"}},
		{"a client without labels of its own", "", labels.Set{"brokerd-client": "true"}, []string{"tcp", "http", "lookup"}},
		{"Prometheus in the namespace monitoring", "monitoring", labels.Set{"app.kubernetes.io/name": "prometheus"}, []string{"http"}},
		{"a pod of the namespace without the label", "", labels.Set{"app.kubernetes.io/name": "shop"}, nil},
		{"a pod whose label says no", "", labels.Set{"brokerd-client": "false"}, nil},
		{"a client in another namespace", "elsewhere", client, nil},
		{"a node of another program", "", labels.Set{"app.kubernetes.io/name": "other", "app.kubernetes.io/component": "node"}, nil},
		{"a node of another namespace", "elsewhere", node, nil},
	}
}

// admitsTheDocumented evaluates the policies for every caller and port of a pod.
func (r *rendered) admitsTheDocumented(namespace string, pod labels.Set) (problems []error) {
	for _, c := range callers(pod) {
		for _, p := range r.sets[0].Spec.Template.Spec.Containers[0].Ports {
			admitted, err := admits(r.networks, namespace, pod, c, p.Name, p.ContainerPort)
			if want := slices.Contains(c.admitted, p.Name); err == nil && admitted != want {
				err = fmt.Errorf("%s may connect to port %s: %v, and the documentation says %v", c.who, p.Name, admitted, want)
			}
			if err != nil {
				problems = append(problems, fmt.Errorf("NetworkPolicy: %w", err))
			}
		}
	}
	return problems
}

// admits reports whether policies of a namespace let a caller connect to a port of a pod. A pod that no policy selects
// admits everyone.
func admits(policies []networking.NetworkPolicy, namespace string, pod labels.Set, c caller, port string, number int32) (bool, error) {
	isolated := false
	for _, n := range policies {
		selected, err := matches(&n.Spec.PodSelector, pod)
		if err != nil {
			return false, err
		}
		if !selected || n.Namespace != namespace || !slices.Contains(n.Spec.PolicyTypes, networking.PolicyTypeIngress) {
			continue
		}
		isolated = true
		for _, rule := range n.Spec.Ingress {
			if len(rule.Ports) > 0 && !slices.ContainsFunc(rule.Ports, func(p networking.NetworkPolicyPort) bool {
				return p.Port == nil || p.Port.String() == port || p.Port.IntVal == number
			}) {
				continue
			}
			if len(rule.From) == 0 {
				return true, nil
			}
			for _, peer := range rule.From {
				if from, err := isFrom(peer, namespace, c); from || err != nil {
					return from, err
				}
			}
		}
	}
	return !isolated, nil
}

// isFrom reports whether a peer of a policy in a namespace is a caller.
func isFrom(peer networking.NetworkPolicyPeer, namespace string, c caller) (bool, error) {
	if peer.IPBlock != nil {
		return false, fmt.Errorf("whether %s has an address of %s is not known", c.who, peer.IPBlock.CIDR)
	}
	at := c.namespace
	if at == "" {
		at = namespace
	}
	if peer.NamespaceSelector == nil {
		if at != namespace {
			return false, nil
		}
	} else if there, err := matches(peer.NamespaceSelector, labels.Set{"kubernetes.io/metadata.name": at}); !there || err != nil {
		return false, err
	}
	if peer.PodSelector == nil {
		return true, nil
	}
	return matches(peer.PodSelector, c.labels)
}

func matches(selector *meta.LabelSelector, set labels.Set) (bool, error) {
	s, err := meta.LabelSelectorAsSelector(selector)
	if err != nil {
		return false, err
	}
	return s.Matches(set), nil
}

package settings

import (
	"slices"
	"strings"

	"github.com/brokerd/brokerd/pkg/admin/api"
)

// choice is which settings are shown.
type choice struct{ all, differing bool }

// row is a value of a setting, and the nodes that have it.
type row struct {
	name, value    string
	nodes, sources []string
}

// unset is the source of a setting that has its default.
const unset = "default"

// own reports whether a setting differs between nodes by its nature.
func own(name string) bool {
	return strings.HasPrefix(name, "advertise-") || slices.Contains([]string{
		"config", "node-id", "data-dir", "zone", "join", "tcp-address", "http-address", "https-address", "lookup-address", "cluster-address",
	}, name)
}

// compare returns the chosen settings with their values, in the order of the settings, and the first
// of names that is no setting. names choose settings whatever they are; none: choice decides.
func compare(nodes []api.NodeSettings, o choice, names []string) (rows []row, unknown string) {
	var order []string
	of := map[string][]row{}
	for _, n := range nodes {
		for _, s := range n.Settings {
			values, known := of[s.Name]
			if !known {
				order = append(order, s.Name)
			}
			i := slices.IndexFunc(values, func(r row) bool { return r.value == s.Value })
			if i < 0 {
				i, values = len(values), append(values, row{name: s.Name, value: s.Value})
			}
			v := &values[i]
			v.nodes = append(v.nodes, n.Node)
			if !slices.Contains(v.sources, s.Source) {
				v.sources = append(v.sources, s.Source)
			}
			of[s.Name] = values
		}
	}
	for i, name := range names {
		names[i] = strings.ReplaceAll(strings.TrimLeft(name, "-"), "_", "-")
		if _, known := of[names[i]]; !known && len(nodes) > 0 {
			return nil, name
		}
	}
	for _, name := range order {
		values, named := of[name], slices.Contains(names, name)
		if len(names) > 0 && !named {
			continue
		}
		plain := len(values) == 1 && slices.Equal(values[0].sources, []string{unset})
		switch {
		case o.differing && (len(values) == 1 || own(name) && !named):
		case o.differing, o.all, named, !plain:
			rows = append(rows, values...)
		}
	}
	return rows, ""
}

package node

import (
	"os"
	"strings"

	"github.com/brokerd/brokerd/pkg/admin/web"
)

// ownNames are the names under which this node may be addressed.
func (n *Node) ownNames() web.Hosts {
	a := &n.c.Advertise
	names := append([]string{a.Host}, n.c.Options.Web.AllowedHosts...)
	for _, address := range []string{a.TCP, a.HTTP, a.HTTPS, a.Lookup, a.Cluster} {
		names = append(names, HostOf(address, a.Host))
	}
	return web.NewHosts(append(names, MachineNames()...))
}

// MachineNames are the name of this machine and the domains in which names of one word are looked
// up, in the form that web.NewHosts expects.
func MachineNames() (names []string) {
	if hostname, err := os.Hostname(); err == nil {
		names = append(names, hostname)
	}
	if text, err := os.ReadFile("/etc/resolv.conf"); err == nil {
		names = append(names, searchDomains(string(text))...)
	}
	return names
}

// searchDomains returns the domains in which this machine's resolver looks for names of one word,
// each with a leading dot. They belong to the machine's owner, so a domain of a single word, such
// as com, is omitted.
func searchDomains(resolvConf string) (domains []string) {
	for line := range strings.Lines(resolvConf) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] != "search" && words[0] != "domain" {
			continue
		}
		for _, domain := range words[1:] {
			if domain = strings.Trim(domain, "."); strings.Contains(domain, ".") {
				domains = append(domains, "."+domain)
			}
		}
	}
	return domains
}

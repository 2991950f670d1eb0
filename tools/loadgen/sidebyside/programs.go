package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// The addresses that contenders serve on while they are measured: those of the
// i-th server have a hundred times i added.
const (
	servers     = 3 // of a cluster
	tcpPort     = 14150
	httpPort    = 14151
	clusterPort = 14152
)

func address(port, i int) string { return "127.0.0.1:" + strconv.Itoa(port+100*i) }

// addresses lists those of a cluster, with commas.
func addresses(port int) string {
	var all []string
	for i := range servers {
		all = append(all, address(port, i))
	}
	return strings.Join(all, ",")
}

func pings(n int) (urls []string) {
	for i := range n {
		urls = append(urls, "http://"+address(httpPort, i)+"/readyz")
	}
	return urls
}

// brokerd is one node alone.
func brokerd(program, sync string) contender {
	return contender{
		name: "brokerd, sync=" + sync,
		commands: func(dir string) ([][]string, error) {
			return [][]string{{
				program, "--data-dir", dir, "--sync", sync, "--tcp-address", address(tcpPort, 0),
				"--http-address", address(httpPort, 0), "--cluster-address", address(clusterPort, 0), "--lookup-address", "",
			}}, nil
		},
		health: pings(1),
		target: nsqTarget(),
	}
}

func nsqTarget() []string {
	return []string{"-addr", address(tcpPort, 0), "-nsq-http", address(httpPort, 0)}
}

func nsqd(program string) contender {
	return contender{
		name: "nsqd",
		commands: func(dir string) ([][]string, error) {
			return [][]string{{program, "--data-path", dir, "--tcp-address", address(tcpPort, 0), "--http-address", address(httpPort, 0)}}, nil
		},
		health: []string{"http://" + address(httpPort, 0) + "/ping"},
		target: nsqTarget(),
	}
}

// brokerdCluster is three nodes, with topics of three replicas that sync always. Clients connect to
// the leader named by lookup, or all to the first node.
func brokerdCluster(program string, lookup bool) contender {
	c := contender{
		name: "brokerd R3",
		commands: func(dir string) ([][]string, error) {
			var all [][]string
			for i := range servers {
				id := fmt.Sprintf("n%d", i+1)
				all = append(all, []string{
					program, "--node-id", id, "--data-dir", filepath.Join(dir, id), "--tcp-address", address(tcpPort, i),
					"--http-address", address(httpPort, i), "--cluster-address", address(clusterPort, i), "--lookup-address", "",
					"--bootstrap-expect", strconv.Itoa(servers), "--join", addresses(clusterPort),
				})
			}
			return all, nil
		},
		health: pings(servers),
		target: nsqTarget(),
	}
	if lookup {
		c.target = append(c.target, "-nsq-lookup")
	} else {
		c.name += ", any node"
	}
	return c
}

// natsConfig is the configuration file of a server. JetStream syncs every two
// minutes unless sync_interval is always.
const natsConfig = `server_name: n%d
listen: %q
http: %q
jetstream { store_dir: %q%s }
cluster { name: c, listen: %q, routes: [%s] }
`

// natsCluster is three NATS servers with JetStream, and streams of n replicas.
func natsCluster(program string, replicas int, always bool) contender {
	name, sync := "", ""
	if always {
		name, sync = ", sync always", ", sync_interval: always"
	}
	c := contender{
		name: fmt.Sprintf("JetStream R%d%s", replicas, name),
		commands: func(dir string) ([][]string, error) {
			var all [][]string
			for i := range servers {
				file := filepath.Join(dir, fmt.Sprintf("n%d.conf", i+1))
				var routes []string
				for _, a := range strings.Split(addresses(clusterPort), ",") {
					routes = append(routes, strconv.Quote("nats://"+a))
				}
				text := fmt.Sprintf(natsConfig, i+1, address(tcpPort, i), address(httpPort, i),
					filepath.Join(dir, fmt.Sprintf("n%d", i+1)), sync, address(clusterPort, i), strings.Join(routes, ", "))
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					return nil, err
				}
				all = append(all, []string{program, "-c", file})
			}
			return all, nil
		},
		target: []string{"-driver", "nats", "-addr", addresses(tcpPort), "-replicas", strconv.Itoa(replicas)},
	}
	for i := range servers {
		c.health = append(c.health, "http://"+address(httpPort, i)+"/healthz")
	}
	return c
}

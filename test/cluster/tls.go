package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/brokerd/brokerd/test/nodes"
	"github.com/brokerd/brokerd/test/steps"
)

// identityOf returns the path of a node's certificate.
func identityOf(st *stage, id string) nodes.Identity {
	return nodes.Identity(filepath.Join(st.dir, "tls", id))
}

// certify gives every node a certificate; those of the founders are good.
func certify(st *stage, o *nodes.Options) error {
	o.ArgsOf = func(id string) []string {
		at := identityOf(st, id)
		return []string{"--cluster-tls-cert", at.File("cert.pem"), "--cluster-tls-key", at.File("key.pem"), "--cluster-tls-ca", at.File("ca.pem")}
	}
	var err error
	if st.authority, err = nodes.NewAuthority(); err != nil {
		return err
	}
	for i := range o.Nodes {
		id := fmt.Sprintf("n%d", i+1)
		if err := st.authority.Issue(identityOf(st, id), id, st.authority); err != nil {
			return err
		}
	}
	return nil
}

// playTLS starts nodes whose certificates are not good, renews the good certificates and their
// authority, and kills a leader.
func playTLS(st *stage) {
	foreign := steps.Need(nodes.NewAuthority())
	founders := len(st.c.Nodes)
	stranger := fmt.Sprintf("n%d", founders+1)
	steps.Must(foreign.Issue(identityOf(st, stranger), stranger, st.authority))
	turnedAway(st, "unknown certificate authority")
	impostor := fmt.Sprintf("n%d", founders+2)
	steps.Must(st.authority.Issue(identityOf(st, impostor), "n1", st.authority))
	turnedAway(st, "certificate is not for "+impostor)
	renew(st, st.c.Nodes[:founders])
	n := steps.Need(partitionLeader(st))
	steps.Must(errors.Join(st.kill(n), st.start(n)))
}

// turnedAway starts a node that must not become a member, and requires an error that says why.
func turnedAway(st *stage, why string) {
	at := steps.Need(st.o.ports.Free(1))
	n := st.c.Grow(at[0])
	st.note("start %s, which must be refused: %s", n.ID, why)
	steps.Must(n.Start())
	steps.Must(await(st, startTimeout, func(context.Context) error {
		if !strings.Contains(n.LogEnd(), why) {
			return fmt.Errorf("%s does not say that %s", n.ID, why)
		}
		return nil
	}))
	info := steps.Need(st.c.Info(st.ctx))
	for _, member := range info.Nodes {
		if member.ID == n.ID {
			steps.Fail("%s is a member despite its certificate", n.ID)
		}
	}
	steps.Must(n.Stop())
}

// renew replaces the authority and all certificates while the nodes run, in the order that the
// manual gives: first all nodes trust both authorities, then they get certificates of the new one,
// then the old authority is removed.
func renew(st *stage, these []*nodes.Node) {
	old := st.authority
	fresh := steps.Need(nodes.NewAuthority())
	for _, step := range []struct {
		by      *nodes.Authority
		trusted []*nodes.Authority
	}{
		{old, []*nodes.Authority{old, fresh}},
		{fresh, []*nodes.Authority{old, fresh}},
		{fresh, []*nodes.Authority{fresh}},
	} {
		for _, n := range these {
			steps.Must(step.by.Issue(identityOf(st, n.ID), n.ID, step.trusted...))
			st.note("SIGHUP %s", n.ID)
			steps.Must(n.Reload())
		}
		for _, n := range these {
			shows(st, n)
		}
	}
	st.authority = fresh
}

// shows waits until a node presents the certificate that is in its file.
func shows(st *stage, n *nodes.Node) {
	text := steps.Need(os.ReadFile(identityOf(st, n.ID).File("cert.pem")))
	want, _ := pem.Decode(text)
	steps.Must(await(st, moveTimeout, func(ctx context.Context) error {
		d := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} // the test checks the certificate itself
		conn, err := d.DialContext(ctx, "tcp", n.Addresses.Cluster)
		if err != nil {
			return err
		}
		defer conn.Close()
		if shown := conn.(*tls.Conn).ConnectionState().PeerCertificates[0]; !bytes.Equal(shown.Raw, want.Bytes) {
			return fmt.Errorf("%s uses certificate %v instead of its new one", n.ID, shown.SerialNumber)
		}
		return nil
	}))
}

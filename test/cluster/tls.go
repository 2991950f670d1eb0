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
func playTLS(st *stage) error {
	foreign, err := nodes.NewAuthority()
	if err != nil {
		return err
	}
	founders := len(st.c.Nodes)
	stranger := fmt.Sprintf("n%d", founders+1)
	if err := foreign.Issue(identityOf(st, stranger), stranger, st.authority); err != nil {
		return err
	}
	if err := turnedAway(st, "unknown certificate authority"); err != nil {
		return err
	}
	impostor := fmt.Sprintf("n%d", founders+2)
	if err := st.authority.Issue(identityOf(st, impostor), "n1", st.authority); err != nil {
		return err
	}
	if err := turnedAway(st, "certificate is not for "+impostor); err != nil {
		return err
	}
	if err := renew(st, st.c.Nodes[:founders]); err != nil {
		return err
	}
	n, err := partitionLeader(st)
	if err != nil {
		return err
	}
	return errors.Join(st.kill(n), st.start(n))
}

// turnedAway starts a node that must not become a member, and requires an error that says why.
func turnedAway(st *stage, why string) error {
	at, err := st.o.ports.Free(1)
	if err != nil {
		return err
	}
	n := st.c.Grow(at[0])
	st.note("start %s, which must be refused: %s", n.ID, why)
	if err := n.Start(); err != nil {
		return err
	}
	err = await(st, startTimeout, func(context.Context) error {
		if !strings.Contains(n.LogEnd(), why) {
			return fmt.Errorf("%s does not say that %s", n.ID, why)
		}
		return nil
	})
	if err != nil {
		return err
	}
	info, err := st.c.Info(st.ctx)
	if err != nil {
		return err
	}
	for _, member := range info.Nodes {
		if member.ID == n.ID {
			return fmt.Errorf("%s is a member despite its certificate", n.ID)
		}
	}
	return n.Stop()
}

// renew replaces the authority and all certificates while the nodes run, in the order that the
// manual gives: first all nodes trust both authorities, then they get certificates of the new one,
// then the old authority is removed.
func renew(st *stage, these []*nodes.Node) error {
	old := st.authority
	fresh, err := nodes.NewAuthority()
	if err != nil {
		return err
	}
	for _, step := range []struct {
		by      *nodes.Authority
		trusted []*nodes.Authority
	}{
		{old, []*nodes.Authority{old, fresh}},
		{fresh, []*nodes.Authority{old, fresh}},
		{fresh, []*nodes.Authority{fresh}},
	} {
		for _, n := range these {
			if err := step.by.Issue(identityOf(st, n.ID), n.ID, step.trusted...); err != nil {
				return err
			}
			st.note("SIGHUP %s", n.ID)
			if err := n.Reload(); err != nil {
				return err
			}
		}
		for _, n := range these {
			if err := shows(st, n); err != nil {
				return err
			}
		}
	}
	st.authority = fresh
	return nil
}

// shows waits until a node presents the certificate that is in its file.
func shows(st *stage, n *nodes.Node) error {
	text, err := os.ReadFile(identityOf(st, n.ID).File("cert.pem"))
	if err != nil {
		return err
	}
	want, _ := pem.Decode(text)
	return await(st, moveTimeout, func(ctx context.Context) error {
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
	})
}

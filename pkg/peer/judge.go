package peer

import (
	"crypto/x509"
	"fmt"
	"slices"
)

// identity is what a node compares a hello with.
type identity struct {
	node        Node
	incarnation uint64
	cluster     string // "": the node is in no cluster yet
}

// judgeDialer returns why the node of this identity refuses the dialer that sent h, or nil. leaf is
// the dialer's certificate; nil: no TLS. Other code checks whether the class is served and whether
// the dialer is a member.
func judgeDialer(self identity, h *Hello, leaf *x509.Certificate) *RefusedError {
	refuse := func(r Reason, format string, args ...any) *RefusedError {
		return &RefusedError{Reason: r, Text: fmt.Sprintf(format, args...), Local: true}
	}
	switch {
	case h.MaxVersion < minVersion || h.MinVersion > maxVersion:
		return refuse(ReasonVersion, "dialer supports versions %d to %d, this node %d to %d", h.MinVersion, h.MaxVersion, minVersion, maxVersion)
	case h.Node == self.node && h.Incarnation == self.incarnation:
		return refuse(ReasonSelf, "")
	case h.Node == self.node:
		return refuse(ReasonNameTaken, "both nodes are %s", h.Node)
	case h.To != "" && h.To != self.node:
		return refuse(ReasonWrongNode, "address belongs to %s, not %s", self.node, h.To)
	case leaf != nil && !Certifies(leaf, h.Node):
		return refuse(ReasonCertificate, "certificate is not for %s", h.Node)
	case h.Class != ClassPing && otherCluster(self.cluster, h.ClusterID):
		return refuse(ReasonWrongCluster, "this node is in cluster %s, not %s", self.cluster, h.ClusterID)
	case !h.Class.visits() && h.ClusterID == "":
		return refuse(ReasonWrongCluster, "%s is not in a cluster", h.Node)
	}
	return nil
}

// judgeAnswer returns why the dialer that sent sent refuses the node that answered with h, or nil.
func judgeAnswer(sent, h *Hello, leaf *x509.Certificate) *RefusedError {
	refuse := func(r Reason, format string, args ...any) *RefusedError {
		return &RefusedError{Reason: r, Text: fmt.Sprintf(format, args...), Local: true}
	}
	switch {
	case h.MaxVersion < minVersion || h.MinVersion > maxVersion:
		return refuse(ReasonVersion, "remote supports versions %d to %d, this node %d to %d", h.MinVersion, h.MaxVersion, minVersion, maxVersion)
	case sent.To != "" && h.Node != sent.To:
		return refuse(ReasonWrongNode, "%s answered instead of %s", h.Node, sent.To)
	case leaf != nil && !Certifies(leaf, h.Node):
		return refuse(ReasonCertificate, "certificate is not for %s", h.Node)
	case sent.Class != ClassPing && otherCluster(sent.ClusterID, h.ClusterID):
		return refuse(ReasonWrongCluster, "remote is in %s, not %s", h.ClusterID, sent.ClusterID)
	}
	return nil
}

// otherCluster reports whether both sides are in a cluster and the clusters differ.
func otherCluster(a, b string) bool { return a != "" && b != "" && a != b }

// Certifies reports whether a certificate is for a node: the node's name is one of the
// certificate's DNS names or, if it has none, its common name.
func Certifies(leaf *x509.Certificate, n Node) bool {
	if len(leaf.DNSNames) > 0 {
		return slices.Contains(leaf.DNSNames, string(n))
	}
	return leaf.Subject.CommonName == string(n)
}

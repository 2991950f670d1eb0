package health

import (
	"fmt"
	"strings"
	"time"
)

// Certificate is one that a node shows to others.
type Certificate struct {
	Usage string // server or cluster
	Ends  time.Time
}

// CertificateNotice is how long before its end a certificate is reported.
const CertificateNotice = 30 * 24 * time.Hour

// Of certificates: the codes, and what they mean.
const (
	certificateEnds  = "certificate_ends"
	certificateEnded = "certificate_ended"
	endsSoon         = "TLS certificates expire within 30 days; replace the files, which are read again"
	hasEnded         = "TLS certificates have expired, clients and nodes refuse them; replace the files, which are read again"
)

// CertificateReasons reports the certificates that have expired, and those that expire soon.
func CertificateReasons(all []Certificate, now time.Time) (reasons []Reason) {
	var soon, ended []string
	for _, c := range all {
		what := c.Usage + " " + c.Ends.UTC().Format(time.RFC3339)
		switch left := c.Ends.Sub(now); {
		case left < 0:
			ended = append(ended, what)
		case left < CertificateNotice:
			soon = append(soon, what)
		}
	}
	if len(ended) > 0 {
		reasons = append(reasons, Reason{Code: certificateEnded, Count: len(ended), What: hasEnded + ": " + Names(ended)})
	}
	if len(soon) > 0 {
		reasons = append(reasons, Reason{Code: certificateEnds, Count: len(soon), What: endsSoon + ": " + Names(soon)})
	}
	return reasons
}

// addCertificate adds what a node reports of its certificates: each node has its own.
func (f *Findings) addCertificate(node string, r Reason) {
	what := endsSoon
	if r.Code == certificateEnded {
		what = hasEnded
	}
	f.Add(r.Code, what, fmt.Sprintf("%s (%s)", node, strings.TrimPrefix(r.What, what+": ")))
}

// AddNode adds what a node reports of itself.
func (f *Findings) AddNode(node string, r Reason) {
	if r.Code == certificateEnds || r.Code == certificateEnded {
		f.addCertificate(node, r)
		return
	}
	f.Add(r.Code, r.What, "on "+node)
}

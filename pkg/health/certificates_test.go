package health

import (
	"strings"
	"testing"
	"time"
)

// TestCertificatesAreReportedBeforeTheyEnd: from thirty days on, with the node, and without an effect on its health until
// they have expired.
func TestCertificatesAreReportedBeforeTheyEnd(t *testing.T) {
	now := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	at := func(left ...time.Duration) (all []Certificate) {
		for i, d := range left {
			all = append(all, Certificate{[]string{"server", "cluster"}[i], now.Add(d)})
		}
		return all
	}
	for _, x := range []struct {
		what     string
		n1, n2   []Certificate
		says     []string
		degraded bool
	}{
		{"no certificate", nil, nil, nil, false},
		{"long before", at(CertificateNotice), at(CertificateNotice * 2), nil, false},
		{"one soon", at(CertificateNotice-1, CertificateNotice), nil, []string{"certificate_ends", "n1 (server 2026-12-21T05:59:59Z)"}, false},
		{"others than on the other node", at(time.Hour), at(2*CertificateNotice, 2*time.Hour), []string{"certificate_ends", "n1 (server 2026-11-21T07:00:00Z) n2 (cluster 2026-11-21T08:00:00Z)"}, false},
		{"one that has ended", at(-time.Second, time.Hour), nil, []string{"certificate_ended", "n1 (server 2026-11-21T05:59:59Z)", "certificate_ends", "n1 (cluster "}, true},
	} {
		f := NewFindings()
		for _, r := range CertificateReasons(x.n1, now) {
			f.AddNode("n1", r)
		}
		for _, r := range CertificateReasons(x.n2, now) {
			f.AddNode("n2", r)
		}
		report, text := f.Report(), ""
		for _, r := range report.Reasons {
			text += r.Code + ": " + r.What + "\n"
		}
		if (text == "") != (x.says == nil) || report.Degraded != x.degraded || report.Healthy == x.degraded {
			t.Errorf("%s: %+v", x.what, report)
		}
		for _, want := range x.says {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q does not say %q", x.what, text, want)
			}
		}
	}
}

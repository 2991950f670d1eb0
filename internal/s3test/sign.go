package s3test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	dateForm   = "20060102T150405Z"
	algorithm  = "AWS4-HMAC-SHA256"
	maxSkew    = 15 * time.Minute
	noChecksum = "UNSIGNED-PAYLOAD"
)

// authenticate reads the body of a request and verifies its signature, version 4. It returns the
// code of the refusal; "": the request is genuine.
func authenticate(r *http.Request, now time.Time) (body []byte, refused string) {
	rest, ok := strings.CutPrefix(r.Header.Get("Authorization"), algorithm+" ")
	if !ok {
		return nil, "AccessDenied"
	}
	fields := map[string]string{}
	for f := range strings.SplitSeq(rest, ",") {
		k, v, _ := strings.Cut(strings.TrimSpace(f), "=")
		fields[k] = v
	}
	key, scope, _ := strings.Cut(fields["Credential"], "/")
	date := r.Header.Get("X-Amz-Date")
	at, err := time.Parse(dateForm, date) //nolint:forbidigo // the form of S3
	switch {
	case err != nil:
		return nil, "AccessDenied"
	case key != AccessKey:
		return nil, "InvalidAccessKeyId"
	case now.Sub(at).Abs() > maxSkew:
		return nil, "RequestTimeTooSkewed"
	}
	s := signature{scope: scope, date: date}
	payload := r.Header.Get("X-Amz-Content-Sha256")
	want := s.sign(algorithm, scope, digest(canonical(r, strings.Split(fields["SignedHeaders"], ";"), payload)))
	if want != fields["Signature"] {
		return nil, "SignatureDoesNotMatch"
	}
	body, err = io.ReadAll(r.Body)
	if err != nil || payload != noChecksum && payload != digest(string(body)) {
		return nil, "XAmzContentSHA256Mismatch"
	}
	if payload == noChecksum && len(body) > 0 && !slices.Contains(strings.Split(fields["SignedHeaders"], ";"), "content-md5") {
		return nil, "AccessDenied" // anybody could change the body
	}
	return body, ""
}

// canonical is the text that stands for a request.
func canonical(r *http.Request, signed []string, payload string) string {
	var query, headers []string
	for k, vs := range r.URL.Query() {
		for _, v := range vs {
			query = append(query, escape(k)+"="+escape(v))
		}
	}
	slices.Sort(query)
	for _, h := range signed {
		v := strings.Join(r.Header.Values(h), ",")
		switch h {
		case "host":
			v = r.Host
		case "content-length":
			v = strconv.FormatInt(r.ContentLength, 10)
		}
		headers = append(headers, h+":"+strings.TrimSpace(v)+"\n")
	}
	return strings.Join([]string{
		r.Method, r.URL.EscapedPath(), strings.Join(query, "&"), strings.Join(headers, ""), strings.Join(signed, ";"), payload,
	}, "\n")
}

func escape(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// signature is what the signatures of a request have in common.
type signature struct{ scope, date string }

// sign signs lines.
func (s signature) sign(kind, scope string, lines ...string) string {
	key := []byte("AWS4" + SecretKey)
	for part := range strings.SplitSeq(s.scope, "/") {
		key = mac(key, part)
	}
	return hex.EncodeToString(mac(key, strings.Join(append([]string{kind, s.date, scope}, lines...), "\n")))
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	_, _ = h.Write([]byte(text))
	return h.Sum(nil)
}

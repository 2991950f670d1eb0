package peer

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
)

// nonceBytes is the length of the random number of a connection's side.
const nonceBytes = 32

// nonce is chosen at random for one connection: a proof of an earlier connection is not valid.
type nonce [nonceBytes]byte

// side is the side that proves: a proof of one side is not valid for the other.
type side string

const (
	dialerSide   side = "brokerd cluster secret: dialer"
	acceptorSide side = "brokerd cluster secret: acceptor"
)

// prove returns a proof that a side has the secret, for the connection that began with these two
// hellos. The secret can be found from the proof only by guessing.
func prove(secret []byte, by side, dialer, acceptor *Hello) []byte {
	mac := hmac.New(sha256.New, secret)
	io.WriteString(mac, string(by)) //nolint:errcheck // a hash takes everything
	mac.Write(encodeHello(dialer))
	mac.Write(encodeHello(acceptor))
	return mac.Sum(nil)
}

// proven reports whether proof is valid for one of the secrets. It takes as long for a wrong proof
// as for a right one.
func proven(secrets [][]byte, proof []byte, by side, dialer, acceptor *Hello) bool {
	found := false
	for _, s := range secrets {
		found = hmac.Equal(proof, prove(s, by, dialer, acceptor)) || found
	}
	return found
}

// challenge completes a hello that a side with secrets is about to send.
func (h *Hello) challenge(secrets [][]byte) {
	if len(secrets) > 0 {
		h.Proves = true
		rand.Read(h.Nonce[:])
	}
}

// noSecret returns why two sides cannot prove a secret to each other, or nil.
func noSecret(secrets [][]byte, h *Hello) *RefusedError {
	switch {
	case len(secrets) > 0 && !h.Proves:
		return &RefusedError{Reason: ReasonSecret, Text: fmt.Sprintf("%s presented no secret: configure the cluster-secret-file of the other nodes on it", h.Node), Local: true}
	case len(secrets) == 0 && h.Proves:
		return &RefusedError{Reason: ReasonSecret, Text: "only the dialing node has a secret: configure the same cluster-secret-file on all nodes", Local: true}
	}
	return nil
}

var errOtherSecret = &RefusedError{Reason: ReasonSecret, Text: "secrets differ: configure the same cluster-secret-file on all nodes", Local: true}

// challengeDialer is the accepting side's part after the hellos: it proves its secret, and demands
// a proof of the dialer.
func challengeDialer(conn io.ReadWriter, secrets [][]byte, dialer, own *Hello) error {
	if len(secrets) == 0 {
		return nil
	}
	proof := append([]byte{typeProof}, prove(secrets[0], acceptorSide, dialer, own)...)
	if _, err := conn.Write(encodeHelloBody(proof)); err != nil {
		return fmt.Errorf("send secret proof: %w", err)
	}
	shown, err := readProof(conn)
	if err != nil {
		return err
	}
	if !proven(secrets, shown, dialerSide, dialer, own) {
		conn.Write(encodeRefusal(errOtherSecret.Reason, errOtherSecret.Text)) //nolint:errcheck // the peer may have disconnected
		return errOtherSecret
	}
	if _, err := conn.Write(encodeHelloBody([]byte{typeWelcome})); err != nil {
		return fmt.Errorf("send welcome: %w", err)
	}
	return nil
}

// answerChallenge is the dialer's part: it proves its secret after the other side has proved that
// it has the secret.
func answerChallenge(conn io.ReadWriter, secrets [][]byte, own, acceptor *Hello) error {
	if len(secrets) == 0 {
		return nil
	}
	shown, err := readProof(conn)
	if err != nil {
		return err
	}
	if !proven(secrets, shown, acceptorSide, own, acceptor) {
		conn.Write(encodeRefusal(errOtherSecret.Reason, errOtherSecret.Text)) //nolint:errcheck // the peer may have disconnected
		return errOtherSecret
	}
	proof := append([]byte{typeProof}, prove(secrets[0], dialerSide, own, acceptor)...)
	if _, err := conn.Write(encodeHelloBody(proof)); err != nil {
		return fmt.Errorf("send secret proof: %w", err)
	}
	body, err := readHelloBody(conn)
	switch {
	case err != nil:
		return err
	case len(body) > 0 && body[0] == typeRefusal:
		return parseRefusal(body)
	case len(body) == 0 || body[0] != typeWelcome:
		return fmt.Errorf("%w: welcome missing", errHello)
	}
	return nil
}

// readProof reads the other side's proof. It returns a refusal as a *RefusedError.
func readProof(r io.Reader) ([]byte, error) {
	body, err := readHelloBody(r)
	switch {
	case err != nil:
		return nil, err
	case len(body) > 0 && body[0] == typeRefusal:
		return nil, parseRefusal(body)
	case len(body) != 1+sha256.Size || body[0] != typeProof:
		return nil, fmt.Errorf("%w: secret proof missing", errHello)
	}
	return body[1:], nil
}

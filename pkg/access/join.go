package access

import (
	"cmp"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
)

// joinPrefix begins a join token: brj_ID_SEED, in the form of a token.
const joinPrefix = "brj_"

// maxJoinTokens is the maximum number of join tokens that have not expired.
const maxJoinTokens = 1000

// Further reasons why a join token does not admit a node.
var (
	errNoJoinToken   = fate.Refuse("join token required")
	errJoinTokenNode = fate.Refuse("join token is for another node")
	errJoinProof     = fate.Refuse("join token is not valid")
)

// JoinToken is the stored part of a join token, with which one process of one node may join the
// cluster. The token itself is a private key that never leaves the node: the stored part can only
// verify. Callers must not change a JoinToken of a Directory.
type JoinToken struct {
	ID      string `json:"id"`
	Node    string `json:"node"`             // the only node that may use it
	Key     string `json:"key,omitempty"`    // public, in hexadecimal
	Created int64  `json:"created"`          // ns since 1970
	Expires int64  `json:"expires"`          // likewise
	Used    int64  `json:"used,omitempty"`   // likewise; 0: not yet
	Process uint64 `json:"process,omitzero"` // that used it
}

// Joiner is a process that wants to join a cluster.
type Joiner struct {
	Cluster string
	Node    string
	Address string // for other nodes
	Process uint64
}

// statement returns the text that a joiner signs. A signature is of no use for another cluster,
// node, address or process.
func (j Joiner) statement() []byte {
	return fmt.Appendf(nil, "brokerd join\n%q\n%q\n%q\n%d\n", j.Cluster, j.Node, j.Address, j.Process)
}

// JoinProof proves that a process has a join token, without showing the token.
type JoinProof struct {
	ID        string `json:"id"`
	Signature []byte `json:"signature"`
}

// NewJoinToken creates a join token of random bytes. It returns the text, which is shown once and
// never stored, and the part that is stored. An error is that of the random source.
func NewJoinToken(random io.Reader) (text string, stored JoinToken, err error) {
	raw := make([]byte, tokenID+ed25519.SeedSize)
	if _, err := io.ReadFull(random, raw); err != nil {
		return "", JoinToken{}, fmt.Errorf("make join token: %w", err)
	}
	id, seed := hex.EncodeToString(raw[:tokenID]), raw[tokenID:]
	key := ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey)
	return joinPrefix + id + "_" + base64.RawURLEncoding.EncodeToString(seed), JoinToken{ID: id, Key: hex.EncodeToString(key)}, nil
}

// Prove returns the proof that a joiner has a join token. It is an error if the text is no join
// token; the error does not contain it.
func (j Joiner) Prove(text string) (JoinProof, error) {
	id, secret, ok := partsOf(joinPrefix, text)
	seed, err := base64.RawURLEncoding.Strict().DecodeString(secret)
	switch {
	case IsToken(text):
		return JoinProof{}, fmt.Errorf("%w: it is a token of a user", failure.InvalidAccess)
	case !ok || err != nil || len(seed) != ed25519.SeedSize:
		return JoinProof{}, fmt.Errorf("%w: not a join token, which begins with %s", failure.InvalidAccess, joinPrefix)
	}
	return JoinProof{id, ed25519.Sign(ed25519.NewKeyFromSeed(seed), j.statement())}, nil
}

// proves reports whether a proof is the joiner's, by this token.
func (t *JoinToken) proves(p JoinProof, who Joiner) bool {
	key, err := hex.DecodeString(t.Key)
	return err == nil && len(key) == ed25519.PublicKeySize && ed25519.Verify(key, who.statement(), p.Signature)
}

// Expired reports whether the token is no longer valid.
func (t *JoinToken) Expired(now int64) bool { return now >= t.Expires }

func (t *JoinToken) validate() error {
	if len(t.ID) != 2*tokenID || !isHex(t.ID) || len(t.Key) != 2*ed25519.PublicKeySize || !isHex(t.Key) {
		return fmt.Errorf("%w: id or key of a join token", failure.InvalidAccess)
	}
	if t.Node == "" || len(t.Node) > maxName || t.Created < 0 || t.Expires <= t.Created || t.Used < 0 || (t.Used == 0) != (t.Process == 0) {
		return fmt.Errorf("%w: join token for node %.64q, created at %d, expires at %d, used at %d", failure.InvalidAccess, t.Node, t.Created, t.Expires, t.Used)
	}
	return nil
}

// JoinTokensRequired reports whether nodes need a join token to join the cluster.
func (d *Directory) JoinTokensRequired() bool { return d != nil && d.joinTokensRequired }

// JoinTokens returns the join tokens by node, and by id.
func (d *Directory) JoinTokens() []*JoinToken {
	if d == nil {
		return nil
	}
	return slices.SortedFunc(maps.Values(d.joins), byNode)
}

func byNode(a, b *JoinToken) int {
	return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.ID, b.ID))
}

// Redeem returns the change that records the use of a join token at a time in ns since 1970. A nil
// change means that nothing needs to be recorded: the same process has used the token before. An
// error says why the proof does not admit the joiner.
func (d *Directory) Redeem(p *JoinProof, who Joiner, now int64) (*Change, error) {
	if p == nil {
		return nil, errNoJoinToken
	}
	var t *JoinToken
	if d != nil {
		t = d.joins[p.ID]
	}
	switch {
	case t == nil: // of a revoked token, too
		return nil, errJoinProof
	case t.Node != who.Node:
		return nil, fmt.Errorf("%w: %s is for %s", errJoinTokenNode, t.ID, t.Node)
	case !t.proves(*p, who):
		return nil, errJoinProof
	case t.Used != 0 && t.Process == who.Process:
		return nil, nil //nolint:nilnil // documented
	case t.Used != 0:
		return nil, fmt.Errorf("%w: %s", ErrJoinTokenUsed, t.ID)
	case t.Expired(now):
		return nil, fmt.Errorf("join %w: %s", ErrExpired, t.ID)
	}
	return &Change{Verb: UseJoinToken, Join: &JoinToken{ID: t.ID, Node: t.Node, Used: now, Process: who.Process}}, nil
}

// changeJoin applies a change about join tokens.
func (d *Directory) changeJoin(c Change) error {
	switch c.Verb {
	case CreateJoinToken:
		maps.DeleteFunc(d.joins, func(_ string, t *JoinToken) bool { return t.Expired(c.Join.Created) })
		return d.putJoin(c.Join)
	case UseJoinToken:
		was := d.joins[c.Join.ID]
		switch {
		case was == nil || was.Node != c.Join.Node:
			return failure.TokenNotFound
		case was.Used != 0 && was.Process != c.Join.Process:
			return ErrJoinTokenUsed // another process was first
		}
		t := *was
		t.Used, t.Process = c.Join.Used, c.Join.Process
		d.joins[t.ID] = &t
	case RevokeJoinToken:
		if d.joins[c.ID] == nil {
			return failure.TokenNotFound
		}
		delete(d.joins, c.ID)
	default:
		d.joinTokensRequired = c.Verb == RequireJoinTokens
	}
	return nil
}

// putJoin adds a join token.
func (d *Directory) putJoin(t *JoinToken) error {
	if err := t.validate(); err != nil {
		return err
	}
	switch {
	case d.joins[t.ID] != nil:
		return failure.TokenExists
	case len(d.joins) >= maxJoinTokens:
		return failure.AccessLimit
	}
	d.joins[t.ID] = t
	return nil
}

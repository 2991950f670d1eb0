package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"strings"

	"golang.org/x/crypto/argon2"

	"github.com/brokerd/brokerd/pkg/failure"
)

// The parts of a token: brk_ID_SECRET, the ID in hexadecimal and the SECRET in base64.
const (
	tokenPrefix = "brk_"
	tokenID     = 8  // bytes
	tokenSecret = 32 // bytes
)

// tokenLength is the length of a token, in bytes.
var tokenLength = len(tokenPrefix) + 2*tokenID + 1 + base64.RawURLEncoding.EncodedLen(tokenSecret)

// NewToken creates a token of random bytes. It returns the text, which is shown once and
// never stored, and the part that is stored. An error is that of the random source.
func NewToken(random io.Reader) (text string, stored Token, err error) {
	raw := make([]byte, tokenID+tokenSecret)
	if _, err := io.ReadFull(random, raw); err != nil {
		return "", Token{}, fmt.Errorf("make token: %w", err)
	}
	id := hex.EncodeToString(raw[:tokenID])
	text = tokenPrefix + id + "_" + base64.RawURLEncoding.EncodeToString(raw[tokenID:])
	return text, Token{ID: id, Hash: hashToken(text)}, nil
}

// IsToken reports whether a secret has the form of a token. Other secrets are for auth
// servers.
func IsToken(secret string) bool {
	_, ok := idOf(secret)
	return ok
}

// Redact returns a text without the secrets of the tokens and join tokens in it, even of one that is
// truncated at the end of the text. Their ids stay.
func Redact(text string) string {
	for _, prefix := range []string{tokenPrefix, joinPrefix} {
		text = redact(prefix, text)
	}
	return text
}

func redact(prefix, text string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, prefix)
		b.WriteString(before)
		if !found {
			return b.String()
		}
		b.WriteString(prefix)
		text = rest
		const idText = 2 * tokenID
		if len(rest) > idText+1 && rest[idText] == '_' && isHex(rest[:idText]) {
			b.WriteString(rest[:idText+1] + "...")
			text = rest[min(len(rest), tokenLength-len(prefix)):]
		}
	}
}

// idOf returns the id of a token.
func idOf(text string) (id string, ok bool) {
	id, _, ok = partsOf(tokenPrefix, text)
	return id, ok
}

// partsOf returns the id and the secret of a token with a prefix.
func partsOf(prefix, text string) (id, secret string, ok bool) {
	rest, ok := strings.CutPrefix(text, prefix)
	const idText = 2 * tokenID
	if !ok || len(rest) != idText+1+base64.RawURLEncoding.EncodedLen(tokenSecret) || rest[idText] != '_' || !isHex(rest[:idText]) {
		return "", "", false
	}
	return rest[:idText], rest[idText+1:], true
}

func isHex(text string) bool { return strings.Trim(text, "0123456789abcdef") == "" }

// hashToken returns the stored hash of a token. One pass of SHA-256 suffices for 256 random
// bits.
func hashToken(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// is reports whether a text is the token, in constant time.
func (t *Token) is(text string) bool {
	return subtle.ConstantTimeCompare([]byte(t.Hash), []byte(hashToken(text))) == 1
}

// The cost of checking a password: argon2id with 19 MiB and two passes, the minimum that
// OWASP recommends. With more, fewer concurrent attempts would exhaust the node's memory.
const (
	passwordMemory  = 19 << 10 // KiB
	passwordPasses  = 2
	passwordThreads = 1
	passwordSalt    = 16 // bytes
	passwordKey     = 32 // bytes
	passwordForm    = "argon2id-19456-2-1$"
)

// The limits of a password's length, in bytes.
const (
	minPassword = 8
	MaxPassword = 256
)

// HashPassword returns the stored hash of a password. It takes 19 MiB of memory and some
// hundredths of a second. A password of an invalid length is refused with failure.InvalidAccess.
func HashPassword(password string, random io.Reader) (string, error) {
	if len(password) < minPassword || len(password) > MaxPassword {
		return "", fmt.Errorf("%w: password of %d bytes, must have %d to %d", failure.InvalidAccess, len(password), minPassword, MaxPassword)
	}
	salt := make([]byte, passwordSalt)
	if _, err := io.ReadFull(random, salt); err != nil {
		return "", fmt.Errorf("salt password: %w", err)
	}
	key := passwordKeyOf(password, salt)
	return passwordForm + base64.RawStdEncoding.EncodeToString(salt) + "$" + base64.RawStdEncoding.EncodeToString(key), nil
}

func passwordKeyOf(password string, salt []byte) []byte {
	return argon2.IDKey([]byte(password), salt, passwordPasses, passwordMemory, passwordThreads, passwordKey)
}

// parsePassword reads what HashPassword returned.
func parsePassword(stored string) (salt, key []byte, ok bool) {
	rest, ok := strings.CutPrefix(stored, passwordForm)
	first, second, two := strings.Cut(rest, "$")
	salt, badSalt := base64.RawStdEncoding.Strict().DecodeString(first)
	key, badKey := base64.RawStdEncoding.Strict().DecodeString(second)
	ok = ok && two && badSalt == nil && badKey == nil && len(salt) == passwordSalt && len(key) == passwordKey
	return salt, key, ok
}

// HasPassword reports whether a password is the user's, at the cost of HashPassword. The cost
// is the same for a nil user or one without a password, so that a client does not learn which
// users exist.
func HasPassword(u *User, password string) bool {
	var salt, key []byte
	known := false
	if u != nil {
		salt, key, known = parsePassword(u.Password)
	}
	if !known {
		salt, key = make([]byte, passwordSalt), make([]byte, passwordKey)
	}
	if len(password) > MaxPassword {
		password, known = password[:MaxPassword], false
	}
	return subtle.ConstantTimeCompare(passwordKeyOf(password, salt), key) == 1 && known
}

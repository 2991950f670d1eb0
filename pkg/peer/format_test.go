package peer

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/brokerd/brokerd/internal/golden"
)

// goldenLines compares lines of a name and bytes with a file.
func goldenLines(t *testing.T, name string, lines []string) {
	t.Helper()
	golden.Compare(t, filepath.Join("testdata", name), strings.Join(lines, "\n")+"\n")
}

// aHello returns a hello with something in every field.
func aHello() *Hello {
	return &Hello{
		MinVersion: 1, MaxVersion: 3, Class: ClassReplication,
		Incarnation: 0x1112131415161718, Session: 0x2122232425262728,
		Proves: true, Nonce: nonce([]byte("0123456789abcdefghijklmnopqrstuv")),
		ClusterID: "c-0001", Node: "node-1", To: "node-2", Build: "1.0.0 (go1.26)",
	}
}

func TestHelloIsGolden(t *testing.T) {
	hello := encodeHello(aHello())
	goldenLines(t, "hello.golden", []string{
		"hello   " + hex.EncodeToString(hello),
		"refusal " + hex.EncodeToString(encodeRefusal(ReasonWrongCluster, "this is c-0002, not c-0001")),
		"proof   " + hex.EncodeToString(encodeHelloBody(append([]byte{typeProof}, prove([]byte("a secret"), dialerSide, aHello(), aHello())...))),
		"welcome " + hex.EncodeToString(encodeHelloBody([]byte{typeWelcome})),
	})
	got, err := readHello(iotest.OneByteReader(bytes.NewReader(hello)))
	if diff := cmp.Diff(aHello(), got); err != nil || diff != "" {
		t.Errorf("read %v:\n%s", err, diff)
	}
}

func TestHelloMayGrow(t *testing.T) {
	old := encodeHello(aHello())
	longer := encodeHelloBody(append(old[helloHeader:], "what a later version adds"...))
	got, err := readHello(bytes.NewReader(append(longer, "frames"...)))
	if diff := cmp.Diff(aHello(), got); err != nil || diff != "" {
		t.Errorf("read %v:\n%s", err, diff)
	}
}

func TestBadHellosAreRefused(t *testing.T) {
	good := encodeHello(aHello())
	changed := func(f func(*Hello)) []byte {
		h := aHello()
		f(h)
		return encodeHello(h)
	}
	body := func(b ...byte) []byte { return encodeHelloBody(b) }
	flipped := bytes.Clone(good)
	flipped[len(flipped)-1] ^= 1
	for name, raw := range map[string][]byte{
		"magic":               append([]byte("GET "), good[4:]...),
		"TLS":                 append([]byte{0x16, 3, 1, 0}, good[4:]...),
		"size":                []byte("BRKD\x01\x08\x00\x00\x00\x00"), // of 2,049 bytes, none of which is read
		"checksum":            flipped,
		"empty":               body(),
		"type":                body(9),
		"short":               body(typeHello, 1, 0),
		"short refusal":       body(typeRefusal, 1, 0, 1, 0),
		"refusal for nothing": body(typeRefusal, 1, 0, 1, 0, 0, 0),
		"no node":             changed(func(h *Hello) { h.Node = "" }),
		"node":                changed(func(h *Hello) { h.Node = "a\nb" }),
		"cluster":             changed(func(h *Hello) { h.ClusterID = "c 1" }),
		"build":               changed(func(h *Hello) { h.Build = "\x1b[31m" }),
		"versions":            changed(func(h *Hello) { h.MinVersion = 4 }),
	} {
		if h, err := readHello(bytes.NewReader(raw)); !errors.Is(err, errHello) || h != nil {
			t.Errorf("%s: %+v, %v", name, h, err)
		}
	}
	for n := range good {
		if _, err := readHello(bytes.NewReader(good[:n])); !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("cut after %d bytes: %v", n, err)
		}
	}
	for n := 4; n < len(good)-helloHeader; n++ { // a body cut short, with a checksum that fits
		if _, err := parseHello(good[helloHeader : helloHeader+n]); !errors.Is(err, errHello) {
			t.Errorf("body of %d bytes: %v", n, err)
		}
	}
}

func TestRefusalsHaveReasons(t *testing.T) {
	_, err := readHello(bytes.NewReader(encodeRefusal(ReasonUnknownNode, "who is\nthat")))
	if r := refusal(t, err); r.Reason != ReasonUnknownNode || r.Text != "who is?that" || r.Local {
		t.Errorf("read %+v", r)
	}
	for r := ReasonNone; r <= ReasonSecret; r++ {
		if strings.HasPrefix(r.String(), "reason ") {
			t.Errorf("%d has no words", r)
		}
	}
}

// testReader returns a reader of frames with its own memory budget.
func testReader(src io.Reader, max int) *frameReader {
	return newFrameReader(src, max, new(chunkPool), &frameMemory{max: defaultFrameMemory}, time.Minute)
}

// encode returns the bytes of a frame.
func encode(kind, flags uint8, correlation uint64, payload string) []byte {
	h, _ := encodeHeader(kind, flags, correlation, [][]byte{[]byte(payload)})
	return append(h[:], payload...)
}

// frames returns frames of all kinds, by name.
func frames() ([]string, [][]byte) {
	return []string{"call", "empty", "reply", "error", "ping", "pong"}, [][]byte{
		encode(7, 0, 0x0102030405060708, "hello"),
		encode(8, 0, 2, ""),
		encode(7, flagReply, 0x0102030405060708, "world"),
		encode(7, flagReply|flagError, 3, "\x4d\x00stale epoch"),
		encode(0, flagControl, 4, ""),
		encode(0, flagControl|flagReply, 4, ""),
	}
}

func TestFramesAreGolden(t *testing.T) {
	names, raws := frames()
	var lines []string
	for i, raw := range raws {
		lines = append(lines, fmt.Sprintf("%-5s %x", names[i], raw))
	}
	goldenLines(t, "frames.golden", lines)
}

func TestFramesAreReadInAnyPieces(t *testing.T) {
	_, raws := frames()
	stream := bytes.Join(raws, nil)
	big := encode(1, 0, 9, strings.Repeat("0123456789", 30000))
	stream = append(stream, big...)
	raws = append(raws, big)
	for name, r := range map[string]io.Reader{
		"whole": bytes.NewReader(stream), "by bytes": iotest.OneByteReader(bytes.NewReader(stream)),
		"by halves": iotest.HalfReader(bytes.NewReader(stream)), "end with data": iotest.DataErrReader(bytes.NewReader(stream)),
	} {
		f := testReader(r, 1<<20)
		for i, raw := range raws {
			fr, err := f.next()
			if err != nil {
				t.Fatalf("%s: frame %d: %v", name, i, err)
			}
			if got := encode(fr.kind, fr.flags, fr.correlation, string(fr.payload)); !bytes.Equal(got, raw) {
				t.Errorf("%s: frame %d differs", name, i)
			}
		}
		if _, err := f.next(); !errors.Is(err, io.EOF) {
			t.Errorf("%s: at the end: %v", name, err)
		}
		f.close()
	}
}

func TestBadFramesAreRefused(t *testing.T) {
	good := encode(7, 0, 1, "hello")
	read := func(raw []byte) error {
		f := testReader(bytes.NewReader(raw), 100)
		defer f.close()
		_, err := f.next()
		return err
	}
	for name, raw := range map[string][]byte{
		"oversize":           encode(7, 0, 1, strings.Repeat("x", 101)),
		"longest":            append([]byte{255, 255, 255, 255}, good[4:]...),
		"flags":              encode(7, 8, 1, ""),
		"error of a call":    encode(7, flagError, 1, "\x00\x00x"),
		"error without code": encode(7, flagReply|flagError, 1, "x"),
		"ping with payload":  encode(0, flagControl, 1, "x"),
		"ping with kind":     encode(1, flagControl, 1, ""),
	} {
		if err := read(raw); !errors.Is(err, errFrame) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for i := range len(good) * 8 {
		raw := bytes.Clone(good)
		raw[i/8] ^= 1 << (i % 8)
		if err := read(raw); err == nil {
			t.Errorf("bit %d changed, and nothing noticed", i)
		} else if i/8 >= 4 && !errors.Is(err, errChecksum) {
			t.Errorf("bit %d changed: %v", i, err)
		}
	}
	for n := range good {
		want := io.ErrUnexpectedEOF
		if n == 0 {
			want = io.EOF
		}
		if err := read(good[:n]); !errors.Is(err, want) {
			t.Errorf("cut after %d bytes: %v, want %v", n, err, want)
		}
	}
}

func TestLengthAloneAllocatesNothing(t *testing.T) {
	raw := encode(1, 0, 1, strings.Repeat("x", 50<<10))
	raw[3] = 0x03 // 48 MiB more
	f := testReader(bytes.NewReader(raw), 64<<20)
	defer f.close()
	if _, err := f.next(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v", err)
	}
	if size := len(f.chunk.data); size > 256<<10 {
		t.Errorf("took %d bytes for 50 KiB that arrived", size)
	}
}

func TestReaderShrinksAfterALargeFrame(t *testing.T) {
	var stream bytes.Buffer
	stream.Write(encode(1, 0, 1, strings.Repeat("x", 1<<20)))
	for range 200 {
		stream.Write(encode(1, 0, 1, ""))
	}
	f := testReader(iotest.OneByteReader(&stream), 2<<20)
	defer f.close()
	for range 201 {
		if _, err := f.next(); err != nil {
			t.Fatal(err)
		}
	}
	if size := len(f.chunk.data); size != smallestChunk {
		t.Errorf("still holds %d bytes", size)
	}
}

func TestChunkClassesFitRequests(t *testing.T) {
	for _, size := range []int{0, 1, smallestChunk, smallestChunk + 1, 4 * smallestChunk, 4*smallestChunk + 1, 16 << 20, 16<<20 + 1} {
		c := new(chunkPool).get(size)
		if len(c.data) < size || len(c.data) > max(4*size, smallestChunk) {
			t.Errorf("%d bytes for %d", len(c.data), size)
		}
		c.release()
	}
}

func TestShortChecksumMatches(t *testing.T) {
	for n := range 20 {
		b := []byte("0123456789abcdefghijk")[:n]
		if checksumShort(b) != crc32.Checksum(b, castagnoli) {
			t.Errorf("of %q", b)
		}
	}
}

func FuzzFrame(f *testing.F) {
	_, raws := frames()
	for _, raw := range raws {
		f.Add(raw)
	}
	f.Add(bytes.Join(raws, nil))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r := testReader(iotest.HalfReader(bytes.NewReader(raw)), 1<<16)
		defer r.close()
		for rest := raw; ; {
			fr, err := r.next()
			if err != nil {
				return
			}
			again := encode(fr.kind, fr.flags, fr.correlation, string(fr.payload))
			if !bytes.HasPrefix(rest, again) {
				t.Fatalf("read %x from %x", again, rest)
			}
			rest = rest[len(again):]
		}
	})
}

func FuzzHello(f *testing.F) {
	f.Add(encodeHello(aHello())[helloHeader:])
	f.Add(encodeRefusal(ReasonSelf, "")[helloHeader:])
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) > maxHelloBody {
			return
		}
		h, err := readHello(bytes.NewReader(encodeHelloBody(body)))
		if err != nil {
			return
		}
		again, err := readHello(bytes.NewReader(encodeHello(h)))
		if diff := cmp.Diff(h, again); err != nil || diff != "" {
			t.Fatalf("%v:\n%s", err, diff)
		}
	})
}

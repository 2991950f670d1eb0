package nsq

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/brokerd/brokerd/internal/buffer"
	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/pkg/failure"
)

// naiveMPUB reads the body of an MPUB field by field.
func naiveMPUB(src io.Reader, l MPUBLimits) (messages []string, length int, err error) {
	number := func() (int, error) {
		var raw [4]byte
		_, err := io.ReadFull(src, raw[:])
		return int(int32(binary.BigEndian.Uint32(raw[:]))), err
	}
	count, err := number()
	if err != nil {
		return nil, 0, Errorf(failure.BadBody, "MPUB failed to read message count")
	}
	if count <= 0 || count > (l.Body-4)/5 {
		return nil, 0, Errorf(failure.BadBody, "MPUB invalid message count %d", count)
	}
	length = 4
	for i := range count {
		size, err := number()
		if err != nil {
			return nil, 0, Errorf(failure.BadMessage, "MPUB failed to read message(%d) body size", i)
		}
		length += 4 + size
		if size <= 0 {
			return nil, 0, Errorf(failure.BadMessage, "MPUB invalid message(%d) body size %d", i, size)
		}
		if size > l.Message {
			return nil, 0, Errorf(failure.BadMessage, "MPUB message too big %d > %d", size, l.Message)
		}
		if least := length + 5*(count-i-1); least > l.Body {
			return nil, 0, Errorf(failure.BadBody, "MPUB body too big %d > %d", least, l.Body)
		}
		body := make([]byte, size)
		if _, err := io.ReadFull(src, body); err != nil {
			return nil, 0, Errorf(failure.BadMessage, "MPUB failed to read message body")
		}
		messages = append(messages, string(body))
	}
	return messages, length, nil
}

// checkMPUB compares ReadMPUB with naiveMPUB on a stream split in the given way, including the
// unread rest.
func checkMPUB(t *testing.T, in []byte, l MPUBLimits, src io.Reader) {
	t.Helper()
	plain := bytes.NewReader(in)
	want, length, wantErr := naiveMPUB(plain, l)
	r := NewReader(src, new(buffer.Pool))
	defer r.Release()
	var got []string
	batch, err := r.ReadMPUB(l)
	batch.Each(func(m []byte) { got = append(got, string(m)) })
	if wantErr != nil {
		if err == nil || len(got) > 0 {
			t.Fatalf("%.60q: %d messages, %v; want %v", in, len(got), err, wantErr)
		}
		var refusal *Error
		if !errors.As(err, &refusal) || !refusal.Fatal() {
			t.Fatalf("%.60q is refused with %v", in, err)
		}
		return
	}
	if err != nil || batch.Len() != length || batch.Count() != len(want) || !cmp.Equal(got, want) {
		t.Fatalf("%.60q: %d of %d messages in %d bytes, %v; want %d in %d", in, len(got), batch.Count(), batch.Len(), err, len(want), length)
	}
	rest := append(r.TakeBuffered(), readRest(t, src)...)
	if left := readRest(t, plain); !bytes.Equal(rest, left) {
		t.Fatalf("%.60q: %d bytes follow, want %d", in, len(rest), len(left))
	}
}

func readRest(t *testing.T, src io.Reader) []byte {
	t.Helper()
	rest, err := io.ReadAll(src)
	if err != nil {
		t.Fatal(err)
	}
	return rest
}

// FuzzReadMPUB checks that a batch ends at its inner sizes, however the input is split.
func FuzzReadMPUB(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x02\x00\x00\x00\x01a\x00\x00\x00\x02bcNOP\n"))
	f.Add([]byte("\x00\x00\x00\x01\x00\x00\x00\x65"))
	f.Add([]byte("\x00\x00\x00\x03\x00\x00\x00\x01a\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, in []byte) {
		for _, l := range []MPUBLimits{{Message: 100, Body: 200}, {Message: 1 << 20, Body: 5 << 20}} {
			checkMPUB(t, in, l, bytes.NewReader(in))
			checkMPUB(t, in, l, iotest.OneByteReader(bytes.NewReader(in)))
			checkMPUB(t, in, l, iotest.DataErrReader(bytes.NewReader(in)))
		}
	})
}

// pieces is a stream that arrives in pieces of random length.
type pieces struct {
	src io.Reader
	rng *rand.Rand
}

func (p *pieces) Read(b []byte) (int, error) {
	return p.src.Read(b[:min(len(b), 1+p.rng.IntN(1<<p.rng.IntN(20)))])
}

func TestBatchesOfAllSizesAreReadAsTheyArrive(t *testing.T) {
	rng := testrand.New(t)
	limits := MPUBLimits{Message: 1 << 20, Body: 4 << 20}
	for range 50 {
		count, most := 1+rng.IntN(1<<rng.IntN(12)), 1+rng.IntN(1<<rng.IntN(20))
		in := binary.BigEndian.AppendUint32(nil, uint32(count))
		for range count {
			size := 1 + rng.IntN(most)
			in = binary.BigEndian.AppendUint32(in, uint32(size))
			in = append(in, bytes.Repeat([]byte{byte(rng.Uint32())}, size)...)
			if len(in) > 5<<20 {
				break
			}
		}
		in = append(in, "NOP\nPUB t\n"...)
		if rng.IntN(5) == 0 {
			in = in[:rng.IntN(len(in))]
		}
		checkMPUB(t, in, limits, &pieces{src: bytes.NewReader(in), rng: rng})
		checkMPUB(t, in, limits, bytes.NewReader(in))
	}
}

func TestTruncatedBatchNamesPosition(t *testing.T) {
	const whole = "\x00\x00\x00\x02\x00\x00\x00\x02ab\x00\x00\x00\x01c"
	for cut, want := range map[int]string{
		0: "E_BAD_BODY MPUB failed to read message count", 3: "E_BAD_BODY MPUB failed to read message count",
		4: "E_BAD_MESSAGE MPUB failed to read message(0) body size", 7: "E_BAD_MESSAGE MPUB failed to read message(0) body size",
		8: "E_BAD_MESSAGE MPUB failed to read message body", 9: "E_BAD_MESSAGE MPUB failed to read message body",
		10: "E_BAD_MESSAGE MPUB failed to read message(1) body size", 14: "E_BAD_MESSAGE MPUB failed to read message body",
	} {
		r := NewReader(strings.NewReader(whole[:cut]), new(buffer.Pool))
		_, err := r.ReadMPUB(MPUBLimits{Message: 10, Body: 100})
		if err == nil || err.Error() != want {
			t.Errorf("cut at %d: %v, want %s", cut, err, want)
		}
	}
}

// An error of the source is not a refusal of its input.
func TestSourceErrorEndsBatch(t *testing.T) {
	broken := errors.New("broken")
	r := NewReader(io.MultiReader(strings.NewReader("\x00\x00\x00\x01"), iotest.ErrReader(broken)), new(buffer.Pool))
	if _, err := r.ReadMPUB(MPUBLimits{Message: 10, Body: 100}); !errors.Is(err, broken) {
		t.Error(err)
	}
}

func TestBatchAllocatesWhatArrives(t *testing.T) {
	in := append([]byte("\x00\x00\x00\x01\x3f\xff\xff\x00"), make([]byte, 100<<10)...)
	r := NewReader(bytes.NewReader(in), new(buffer.Pool))
	if _, err := r.ReadMPUB(MPUBLimits{Message: 1 << 30, Body: 1 << 30}); err == nil {
		t.Fatal("a batch that has not come is taken")
	}
	if got := cap(*r.body); got > 256<<10 {
		t.Errorf("%d bytes allocated for 100 KiB", got)
	}
}

// TestEmptyMessageIsRefusedAtOnce: nothing follows the refused size, and the client waits for the
// answer.
func TestEmptyMessageIsRefusedAtOnce(t *testing.T) {
	waits := errors.New("the client waits for an answer")
	for _, sent := range []string{
		"\x00\x00\x00\x02\x00\x00\x00\x01x\x00\x00\x00\x00", "\x00\x00\x00\x01\x00\x00\x00\x00",
		"\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
	} {
		src := io.MultiReader(iotest.OneByteReader(strings.NewReader(sent)), iotest.ErrReader(waits))
		_, err := NewReader(src, new(buffer.Pool)).ReadMPUB(MPUBLimits{Message: 10, Body: 100})
		if refused, ok := errors.AsType[*Error](err); !ok || refused.Code != failure.BadMessage {
			t.Errorf("%q: %v", sent, err)
		}
	}
}

// TestTooLargeBatchIsRefusedAtOnce: the count says how much must follow at least.
func TestTooLargeBatchIsRefusedAtOnce(t *testing.T) {
	waits := errors.New("the client waits for an answer")
	for size, want := range map[byte]string{47: waits.Error(), 48: "E_BAD_BODY MPUB body too big 101 > 100"} {
		src := io.MultiReader(strings.NewReader("\x00\x00\x00\x0a\x00\x00\x00"+string(rune(size))), iotest.ErrReader(waits))
		if _, err := NewReader(src, new(buffer.Pool)).ReadMPUB(MPUBLimits{Message: 60, Body: 100}); err == nil || err.Error() != want {
			t.Errorf("%d bytes and 9 messages: %v, want %s", size, err, want)
		}
	}
}

package filter

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/vm"

	"github.com/brokerd/brokerd/pkg/fate"
)

// Limits of an expression.
const (
	MaxText  = 1024 // bytes
	maxNodes = 200  // operands and operators
)

// errInvalid is wrapped by the errors of Compile.
var errInvalid = fate.Refuse("invalid filter")

// Message is the part of a message that an expression can read.
type Message struct {
	Header    []byte    // a JSON object; nil: none
	Key       []byte    // nil: none
	Tag       string    // "": none; used only if UsesTag
	Partition int       // that it is stored in
	Timestamp time.Time // when it was published
	Attempts  int       // deliveries, including the one being decided
	Size      int       // bytes of the body
}

// variables are the names of an expression.
type variables struct {
	Header    map[string]any `expr:"header"`
	Key       string         `expr:"key"`
	Tag       string         `expr:"tag"`
	Partition int            `expr:"partition"`
	Timestamp time.Time      `expr:"timestamp"`
	Attempts  int            `expr:"attempts"`
	Size      int            `expr:"size"`
}

// builtins are the functions that expressions may call. Each takes at most time
// proportional to the size of its arguments, and its result is not larger than they are.
var builtins = []string{
	"abs", "ceil", "date", "duration", "float", "floor", "hasPrefix", "hasSuffix", "indexOf", "int", "lastIndexOf", "len",
	"lower", "round", "string", "trim", "trimPrefix", "trimSuffix", "type", "upper",
}

// Filter is a compiled expression. It is immutable and safe for concurrent use.
type Filter struct {
	text    string
	program *vm.Program
	uses    map[string]bool // variables
	machine sync.Pool       // of *machine
}

// machine is the memory of an evaluation, reused for the next one.
type machine struct {
	vm   vm.VM
	vars variables
}

// Compile compiles an expression. An error wraps errInvalid and names the position in the
// text.
func Compile(text string) (f *Filter, err error) {
	switch {
	case text == "":
		return nil, fmt.Errorf("%w: the expression is empty", errInvalid)
	case len(text) > MaxText:
		return nil, fmt.Errorf("%w: the expression has %d bytes, limit is %d", errInvalid, len(text), MaxText)
	case !utf8.ValidString(text):
		return nil, fmt.Errorf("%w: the expression is not valid UTF-8", errInvalid)
	}
	defer func() {
		if r := recover(); r != nil { // a panic of the library on invalid text
			f, err = nil, fmt.Errorf("%w: the expression cannot be compiled: %v", errInvalid, r)
		}
	}()
	if err := checkPatterns(text); err != nil {
		return nil, err
	}
	rules := &rules{uses: map[string]bool{}}
	options := []expr.Option{expr.Env(variables{}), expr.AsBool(), expr.MaxNodes(maxNodes), expr.DisableAllBuiltins(), expr.Patch(rules)}
	for _, name := range builtins {
		options = append(options, expr.EnableBuiltin(name))
	}
	program, err := expr.Compile(text, options...)
	if err == nil {
		err = rules.broken()
	}
	if err != nil {
		return nil, located(text, err)
	}
	return &Filter{text: text, program: program, uses: rules.uses}, nil
}

// located adds the position in the text to an error, in one line.
func located(text string, err error) error {
	var at *file.Error
	if !errors.As(err, &at) {
		return fmt.Errorf("%w: %w", errInvalid, err)
	}
	runes := []rune(text)
	from := min(max(at.From, 0), len(runes))
	rest := string(runes[from:])
	if rest == "" || strings.HasSuffix(at.Message, "token EOF") {
		return fmt.Errorf("%w: unexpected end of the expression after column %d", errInvalid, len(runes))
	}
	return fmt.Errorf("%w: %s at column %d, before %.40q", errInvalid, at.Message, from+1, rest)
}

// String returns the text of the expression.
func (f *Filter) String() string { return f.text }

// UsesTag reports whether Match reads the message's tag.
func (f *Filter) UsesTag() bool { return f.uses["tag"] }

// Match reports whether a message is chosen. An error is why the expression cannot be evaluated,
// for example because it compares a text with a number; the message is then not chosen. Match
// retains no part of the message.
func (f *Filter) Match(m *Message) (bool, error) {
	at, _ := f.machine.Get().(*machine)
	if at == nil {
		at = &machine{}
	}
	defer f.machine.Put(at)
	at.vars = variables{Tag: m.Tag, Partition: m.Partition, Timestamp: m.Timestamp, Attempts: m.Attempts, Size: m.Size}
	if f.uses["key"] {
		at.vars.Key = string(m.Key)
	}
	if f.uses["header"] && len(m.Header) > 0 {
		header, err := readHeader(m.Header)
		if err != nil {
			return false, fmt.Errorf("header: %w", err)
		}
		at.vars.Header = header
	}
	v, err := at.vm.Run(f.program, &at.vars)
	at.vars = variables{}
	if err != nil {
		return false, err
	}
	chosen, _ := v.(bool) // a bool because of AsBool
	return chosen, nil
}

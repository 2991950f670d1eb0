package nsqd

import (
	"errors"
	"io"
	"net/http"
	"net/http/pprof"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/brokerd/brokerd/pkg/admin/nsqform"
)

// routeDebug adds what Go knows of the process.
func routeDebug(t *nsqform.Router) {
	t.Handle(http.MethodGet, "/debug/pprof/", pprof.Index)
	t.Handle(http.MethodGet, "/debug/pprof", pprof.Index)
	t.Handle(http.MethodGet, "/debug/pprof/cmdline", pprof.Cmdline)
	t.Handle(http.MethodGet, "/debug/pprof/profile", pprof.Profile)
	t.Handle(http.MethodGet, "/debug/pprof/symbol", pprof.Symbol)
	t.Handle(http.MethodPost, "/debug/pprof/symbol", pprof.Symbol)
	t.Handle(http.MethodGet, "/debug/pprof/trace", pprof.Trace)
	t.Plain(http.MethodPut, "/debug/setblockrate", setBlockRate)
	t.Plain(http.MethodPost, "/debug/freememory", freeMemory)
}

// option answers the value of one option.
func (s *reports) option(r *http.Request) (any, error) {
	v, known := s.o.Config.Option(strings.TrimPrefix(r.URL.Path, "/config/"))
	if !known {
		return nil, nsqform.Refuse("INVALID_OPTION")
	}
	return v, nil
}

// setOption changes an option and answers its new value, to who may.
func (s *reports) setOption(r *http.Request) (any, error) {
	if !s.o.ConfigFrom.Has(r) {
		return nil, &nsqform.Error{Status: http.StatusForbidden, Word: "FORBIDDEN"}
	}
	limit := int64(s.o.Publishing.Limits.MaxMessage)
	body, err := io.ReadAll(io.LimitReader(r.Body, limit+1))
	switch {
	case err != nil:
		return nil, &nsqform.Error{Status: http.StatusInternalServerError, Word: "INTERNAL_ERROR"}
	case len(body) == 0 || int64(len(body)) > limit:
		return nil, nsqform.TooLarge("INVALID_VALUE")
	}
	err = s.o.Config.SetOption(strings.TrimPrefix(r.URL.Path, "/config/"), body)
	switch {
	case errors.Is(err, ErrUnknownOption):
		return nil, nsqform.Refuse("INVALID_OPTION")
	case err != nil:
		return nil, nsqform.Refuse("INVALID_VALUE")
	}
	return s.option(r)
}

func setBlockRate(r *http.Request) (any, error) {
	p, err := nsqform.ReadParams(r)
	if err != nil {
		return nil, err
	}
	text, _ := p.Lookup("rate")
	rate, err := strconv.Atoi(text)
	if err != nil {
		return nil, nsqform.Refuse("INVALID_RATE")
	}
	runtime.SetBlockProfileRate(rate)
	return "OK", nil
}

func freeMemory(*http.Request) (any, error) {
	debug.FreeOSMemory()
	return "OK", nil
}

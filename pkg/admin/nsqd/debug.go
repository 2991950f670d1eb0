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
	"github.com/brokerd/brokerd/pkg/admin/web"
)

// routeDebug adds the profiling endpoints of Go, for clients of some networks: a profile uses a
// processor and reveals what the process does.
func routeDebug(t *nsqform.Router, from web.Networks) {
	profile := func(method, path string, serve http.HandlerFunc) {
		t.Handle(method, path, func(w http.ResponseWriter, r *http.Request) {
			if !from.Has(r) {
				http.Error(w, "profiling is not allowed from this address: see allow-config-from-cidr", http.StatusForbidden)
				return
			}
			serve(w, r)
		})
	}
	profile(http.MethodGet, "/debug/pprof/", pprof.Index)
	profile(http.MethodGet, "/debug/pprof", pprof.Index)
	profile(http.MethodGet, "/debug/pprof/cmdline", pprof.Cmdline)
	profile(http.MethodGet, "/debug/pprof/profile", pprof.Profile)
	profile(http.MethodGet, "/debug/pprof/symbol", pprof.Symbol)
	profile(http.MethodPost, "/debug/pprof/symbol", pprof.Symbol)
	profile(http.MethodGet, "/debug/pprof/trace", pprof.Trace)
	act := func(method, path string, f func(*http.Request) (any, error)) {
		t.Plain(method, path, func(r *http.Request) (any, error) {
			if !from.Has(r) {
				return nil, errForeign
			}
			return f(r)
		})
	}
	act(http.MethodPut, "/debug/setblockrate", setBlockRate)
	act(http.MethodPost, "/debug/freememory", freeMemory)
}

// errForeign refuses a client of a network that may not do such things.
var errForeign = &nsqform.Error{Status: http.StatusForbidden, Word: "FORBIDDEN"}

// option answers the value of one option.
func (s *reports) option(r *http.Request) (any, error) {
	v, known := s.o.Config.Option(strings.TrimPrefix(r.URL.Path, "/config/"))
	if !known {
		return nil, nsqform.Refuse("INVALID_OPTION")
	}
	return v, nil
}

// setOption changes an option and returns its new value, if the client may do so.
func (s *reports) setOption(r *http.Request) (any, error) {
	if !s.o.ConfigFrom.Has(r) {
		return nil, errForeign
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

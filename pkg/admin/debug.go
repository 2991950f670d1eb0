package admin

import (
	"errors"
	"io"
	"net/http"
	"net/http/pprof"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
)

// routeDebug adds what Go knows of the process.
func routeDebug(t *router) {
	t.handle(http.MethodGet, "/debug/pprof/", pprof.Index)
	t.handle(http.MethodGet, "/debug/pprof", pprof.Index)
	t.handle(http.MethodGet, "/debug/pprof/cmdline", pprof.Cmdline)
	t.handle(http.MethodGet, "/debug/pprof/profile", pprof.Profile)
	t.handle(http.MethodGet, "/debug/pprof/symbol", pprof.Symbol)
	t.handle(http.MethodPost, "/debug/pprof/symbol", pprof.Symbol)
	t.handle(http.MethodGet, "/debug/pprof/trace", pprof.Trace)
	t.plain(http.MethodPut, "/debug/setblockrate", setBlockRate)
	t.plain(http.MethodPost, "/debug/freememory", freeMemory)
}

// option answers the value of one option.
func (s *reports) option(r *http.Request) (any, error) {
	v, known := s.o.Config.Option(strings.TrimPrefix(r.URL.Path, "/config/"))
	if !known {
		return nil, refuse("INVALID_OPTION")
	}
	return v, nil
}

// setOption changes an option and answers its new value, to who may.
func (s *reports) setOption(r *http.Request) (any, error) {
	if !s.o.ConfigFrom.has(r) {
		return nil, &nsqError{http.StatusForbidden, "FORBIDDEN"}
	}
	limit := int64(s.o.Limits.MaxMessage)
	body, err := io.ReadAll(io.LimitReader(r.Body, limit+1))
	switch {
	case err != nil:
		return nil, &nsqError{http.StatusInternalServerError, "INTERNAL_ERROR"}
	case len(body) == 0 || int64(len(body)) > limit:
		return nil, tooLarge("INVALID_VALUE")
	}
	err = s.o.Config.SetOption(strings.TrimPrefix(r.URL.Path, "/config/"), body)
	switch {
	case errors.Is(err, ErrUnknownOption):
		return nil, refuse("INVALID_OPTION")
	case err != nil:
		return nil, refuse("INVALID_VALUE")
	}
	return s.option(r)
}

func setBlockRate(r *http.Request) (any, error) {
	p, err := readParams(r)
	if err != nil {
		return nil, err
	}
	text, _ := p.lookup("rate")
	rate, err := strconv.Atoi(text)
	if err != nil {
		return nil, refuse("INVALID_RATE")
	}
	runtime.SetBlockProfileRate(rate)
	return "OK", nil
}

func freeMemory(*http.Request) (any, error) {
	debug.FreeOSMemory()
	return "OK", nil
}

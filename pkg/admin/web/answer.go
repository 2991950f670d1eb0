package web

import (
	"bytes"
	"encoding/json"
	"net/http"
)

// IsProbe reports whether a path is one of the health probes'.
func IsProbe(path string) bool {
	return path == "/livez" || path == "/healthz" || path == "/readyz" || path == "/startupz"
}

// WriteJSON writes one JSON value and no newline.
func WriteJSON(w http.ResponseWriter, status int, v any) { WriteEncoded(w, status, EncodeJSON(v)) }

// EncodeJSON returns the output of WriteJSON. It does not escape for HTML, so that headers of
// messages are returned as published, and do not grow.
func EncodeJSON(v any) []byte {
	var body bytes.Buffer
	e := json.NewEncoder(&body)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("BUG: cannot encode response as JSON: " + err.Error())
	}
	return bytes.TrimSuffix(body.Bytes(), []byte("\n"))
}

// WriteEncoded writes the output of EncodeJSON.
func WriteEncoded(w http.ResponseWriter, status int, body []byte) {
	write(w, status, "application/json; charset=utf-8", body)
}

// WriteText writes plain text.
func WriteText(w http.ResponseWriter, status int, text []byte) {
	write(w, status, "text/plain; charset=utf-8", text)
}

func write(w http.ResponseWriter, status int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body) // ignore: the client disconnected
}

package execserver_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// newWebServer is what http/request is tried on. It returns its URL.
func newWebServer(t *testing.T) string {
	mux := http.NewServeMux()
	mux.HandleFunc("/hello", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.Header()["Date"] = nil
		fmt.Fprint(w, "hello")
	})
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "text/plain")
		w.Header()["Date"] = nil
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprintf(w, "%s %v %s", r.Method, r.Header["X-Try"], body)
	})
	mux.HandleFunc("/moved", func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Date"] = nil
		w.Header().Set("Location", "/hello")
		w.WriteHeader(http.StatusFound)
	})
	mux.HandleFunc("/gzip", func(w http.ResponseWriter, _ *http.Request) {
		var body bytes.Buffer
		zip := gzip.NewWriter(&body)
		fmt.Fprint(zip, "squeezed")
		zip.Close()
		w.Header()["Date"] = nil
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Content-Encoding", "gzip")
		w.Write(body.Bytes())
	})
	mux.HandleFunc("/cut", func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Date"] = nil
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Content-Length", "100")
		fmt.Fprint(w, "only this")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	mux.HandleFunc("/never", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	web := httptest.NewServer(mux)
	t.Cleanup(web.Close)
	return web.URL
}

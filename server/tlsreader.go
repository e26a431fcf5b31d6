package server

import (
	"crypto/tls"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
)

// tlsReader reads TLS files again when they have changed: certificates are renewed
// while a server runs, and its processes should not end for it.
type tlsReader struct {
	files  TLSFiles
	latest atomic.Pointer[tls.Config]

	reading chan struct{} // holds a token while somebody looks, who alone uses stamp
	stamp   string        // of the files when they were last read
}

// config returns what is in force. It may read the files; handshakes beside it go on
// with what there is.
func (r *tlsReader) config() *tls.Config {
	select {
	case r.reading <- struct{}{}:
	default:
		return r.latest.Load()
	}
	defer func() { <-r.reading }()
	stamp := r.files.stamp()
	if stamp == r.stamp {
		return r.latest.Load()
	}
	r.stamp = stamp // taken first: what changes while it is read is read again
	cfg, err := r.files.read()
	if err != nil { // one of a pair is new, perhaps, and the other about to be
		r.files.Logger.Warn("changed TLS files cannot be used, those of before stay in force", "err", err)
		return r.latest.Load()
	}
	r.files.Logger.Info("TLS files have changed and are in force", "cert", r.files.Cert)
	r.latest.Store(cfg)
	return cfg
}

// stamp changes when the files do.
func (f TLSFiles) stamp() string {
	var b strings.Builder
	for _, name := range []string{f.Cert, f.Key, f.ClientCA} {
		if info, err := os.Stat(name); err == nil {
			fmt.Fprintf(&b, "%d %d;", info.ModTime().UnixNano(), info.Size())
		} else {
			b.WriteString("none;")
		}
	}
	return b.String()
}

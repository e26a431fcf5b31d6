package server

import (
	"fmt"
	"net/netip"
	"strings"
)

// Schemes of listen URLs.
const (
	schemeWS    = "ws"
	schemeWSS   = "wss"
	schemeUnix  = "unix"
	schemeStdio = "stdio"
)

// DefaultListenURL is where a server listens that was told nothing: any free port.
const DefaultListenURL = "ws://127.0.0.1:0"

// listenURL is a parsed listen URL.
type listenURL struct {
	scheme string
	addr   netip.AddrPort // of ws and wss
	path   string         // of unix
}

// parseListenURL takes ws://IP:PORT, wss://IP:PORT, unix:///PATH, stdio and stdio://.
// The first words of its errors are those of the original.
func parseListenURL(raw string) (listenURL, error) {
	if raw == "" {
		raw = DefaultListenURL
	}
	if raw == "stdio" {
		return listenURL{scheme: schemeStdio}, nil
	}
	scheme, rest, ok := strings.Cut(raw, "://")
	switch {
	case !ok:
	case scheme == schemeWS || scheme == schemeWSS:
		addr, err := netip.ParseAddrPort(rest)
		if err != nil {
			return listenURL{}, fmt.Errorf("invalid websocket --listen URL `%s`; expected `%s://IP:PORT`", raw, scheme)
		}
		return listenURL{scheme: scheme, addr: addr}, nil
	case scheme == schemeUnix:
		if !strings.HasPrefix(rest, "/") || strings.HasSuffix(rest, "/") || strings.Contains(rest, "\x00") {
			return listenURL{}, fmt.Errorf("invalid unix --listen URL `%s`; expected `unix:///PATH`", raw)
		}
		return listenURL{scheme: scheme, path: rest}, nil
	case scheme == schemeStdio && rest == "":
		return listenURL{scheme: scheme}, nil
	}
	return listenURL{}, fmt.Errorf("unsupported --listen URL `%s`; expected `ws://IP:PORT` or `stdio`, `wss://IP:PORT` or `unix:///PATH`", raw)
}

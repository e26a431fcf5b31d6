module github.com/wsd-dev/wsd

go 1.26.0

require (
	github.com/segmentio/asm v1.2.1
	github.com/sourcegraph/jsonrpc2 v0.2.3
	golang.org/x/sync v0.25.0
)

require (
	github.com/gorilla/websocket v1.5.3 // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/klauspost/compress v1.20.4 // indirect
	github.com/rogpeppe/go-internal v1.16.0 // indirect
	github.com/spf13/cobra v1.10.2 // indirect
	github.com/spf13/pflag v1.0.9 // indirect
	golang.org/x/sys v0.26.0 // indirect
)

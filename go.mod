module github.com/wsd-dev/wsd

go 1.26.0

require (
	github.com/segmentio/asm v1.2.1
	github.com/sourcegraph/jsonrpc2 v0.2.3
	golang.org/x/sync v0.25.0
)

require golang.org/x/sys v0.0.0-20220412211240-33da011f77ad // indirect

package process

import (
	"bytes"

	"github.com/wsd-dev/wsd/process/eventlog"
)

// deniedPhrases are how programs and libraries word what a sandbox has kept them
// from, in lower case (exec-rpc.md, section 3.9).
var deniedPhrases = [][]byte{
	[]byte("operation not permitted"),
	[]byte("permission denied"),
	[]byte("read-only file system"),
	[]byte("seccomp"),
	[]byte("sandbox"),
	[]byte("landlock"),
	[]byte("failed to write file"),
}

// codeSIGSYS is the exit code of a child that seccomp has killed.
const codeSIGSYS = 128 + 31

// sandboxDenied guesses whether a confined process failed because it was confined,
// from its exit code and the output that is retained. A phrase counts across chunks
// of one stream and across streams in the order of their chunks.
func sandboxDenied(code int, events []eventlog.Event) bool {
	if code == 0 {
		return false
	}
	if code == codeSIGSYS {
		return true
	}
	var all []byte
	streams := make(map[string][]byte)
	for _, e := range events {
		if e.Kind == eventlog.KindOutput {
			all = append(all, e.Data...)
			streams[e.Stream] = append(streams[e.Stream], e.Data...)
		}
	}
	if hasDeniedPhrase(all) {
		return true
	}
	if len(streams) > 1 {
		for _, text := range streams {
			if hasDeniedPhrase(text) {
				return true
			}
		}
	}
	return false
}

func hasDeniedPhrase(text []byte) bool {
	text = bytes.ToLower(text)
	for _, phrase := range deniedPhrases {
		if bytes.Contains(text, phrase) {
			return true
		}
	}
	return false
}

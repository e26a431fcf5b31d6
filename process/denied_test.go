package process

import (
	"strings"
	"testing"

	"github.com/wsd-dev/wsd/process/eventlog"
	"github.com/wsd-dev/wsd/protocol"
)

func TestSandboxDenied(t *testing.T) {
	out := func(text string) eventlog.Event {
		return eventlog.Event{Kind: eventlog.KindOutput, Stream: protocol.StreamStdout, Data: []byte(text)}
	}
	err := func(text string) eventlog.Event {
		return eventlog.Event{Kind: eventlog.KindOutput, Stream: protocol.StreamStderr, Data: []byte(text)}
	}
	for _, tt := range []struct {
		name   string
		code   int
		events []eventlog.Event
		want   bool
	}{
		{"success", 0, []eventlog.Event{err("Permission denied")}, false},
		{"silent failure", 1, nil, false},
		{"other failure", 1, []eventlog.Event{err("no such file")}, false},
		{"SIGSYS", 159, nil, true},
		{"killed", 137, []eventlog.Event{out("x: PERMISSION denied")}, true},
		{"split over chunks", 2, []eventlog.Event{err("Read-only fi"), err("le system")}, true},
		{"split over chunks of one stream", 2, []eventlog.Event{err("Read-only fi"), out("progress"), err("le system")}, true},
		{"split over streams", 2, []eventlog.Event{out("sec"), err("comp")}, true},
		{"split over streams in the other order", 2, []eventlog.Event{err("comp"), out("sec")}, false},
		{"exit among the output", 2, []eventlog.Event{out("sand"), {Kind: eventlog.KindExited, Exit: &eventlog.Exit{}}, out("box")}, true},
		{"terminal", 1, []eventlog.Event{{Kind: eventlog.KindOutput, Stream: protocol.StreamPTY, Data: []byte("Landlock\r\n")}}, true},
		{"not UTF-8", 1, []eventlog.Event{out("\xff\xfeOperation not permitted\xff")}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := sandboxDenied(tt.code, tt.events); got != tt.want {
				t.Errorf("got %v", got)
			}
		})
	}
	for _, phrase := range deniedPhrases {
		if !sandboxDenied(1, []eventlog.Event{out("tool: " + strings.ToUpper(string(phrase)) + "!")}) {
			t.Errorf("%q is not found", phrase)
		}
	}
}

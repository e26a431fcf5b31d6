//go:build interop

package interop

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
)

// A complete event stream needs no process/read, however long it is, and the client
// tidies up with one process/terminate.
func TestNoReadOnCompleteStream(t *testing.T) {
	for name, cmd := range map[string]string{
		"short": "echo hello",
		"long":  "head -c 6000000 /dev/zero | tr '\\0' x; echo; echo END",
		"many":  "for i in $(seq 400); do echo line $i; done; echo END",
		"fails": "echo oops >&2; exit 7",
	} {
		t.Run(name, func(t *testing.T) {
			s := newSetup(t)
			m := newModel(t, shell(cmd), say())
			a, thread := newAppServer(t, newHome(t, m, "danger-full-access"), s, nil)
			a.turn(thread)
			code := "code 0"
			switch name {
			case "fails":
				code = "code 7"
			case "long", "many":
				want(t, m.results(t)[0].Text, "END")
			}
			want(t, m.results(t)[0].Text, code)
			if reads := s.tap.Messages(requests("process/read")); len(reads) != 0 {
				t.Errorf("%d process/read, the first: %s", len(reads), reads[0].Raw)
			}
			wantInOrder(t, s)
			for _, m := range s.tap.Messages(answers("process/terminate")) {
				var terminated struct{ Running bool }
				m.Params(t, &terminated)
				if terminated.Running {
					t.Errorf("process/terminate after closed: %s", m.Raw)
				}
			}
		})
	}
}

// wantInOrder fails the test unless the events of the only process came with the
// numbers 1, 2, 3 and so on, closed last. The original changes places at times.
func wantInOrder(t *testing.T, s *setup) {
	t.Helper()
	if kind != "wsd" {
		return
	}
	next := 1
	events := s.tap.Messages(func(m *message) bool {
		return m.FromServer && m.ID == "" && strings.HasPrefix(m.Method, "process/")
	})
	for i, e := range events {
		var p struct{ Seq int }
		e.Params(t, &p)
		if p.Seq != next {
			t.Errorf("event %d has seq %d, want %d", i, p.Seq, next)
		}
		if last := i == len(events)-1; last != (e.Method == "process/closed") {
			t.Errorf("event %d of %d is %s", i+1, len(events), e.Method)
		}
		next = p.Seq + 1
	}
}

var denied = regexp.MustCompile(`,?"sandboxDenied":(true|false)`)

// With sandboxDenied withheld from exited, as older servers do, the client asks for it
// with exactly one process/read.
func TestOneReadWithoutSandboxDenied(t *testing.T) {
	s := newSetup(t)
	exited := make(chan []byte, 1)
	s.tap.Filter(func(m *message) bool {
		if notices("process/exited")(m) {
			if !denied.Match(m.Raw) {
				t.Errorf("no sandboxDenied in %s", m.Raw)
			}
			m.Raw = bytes.Replace(denied.ReplaceAll(m.Raw, nil), []byte("{,"), []byte("{"), 1)
			select {
			case exited <- m.Raw:
			default:
			}
		}
		return true
	})
	m := newModel(t, shell("echo hello"), say())
	a, thread := newAppServer(t, newHome(t, m, "danger-full-access"), s, nil)
	a.turn(thread)
	want(t, m.results(t)[0].Text, "hello", "code 0")
	reads := s.tap.Messages(requests("process/read"))
	if len(reads) != 1 {
		t.Fatalf("%d process/read, want exactly one", len(reads))
	}
	var read struct{ AfterSeq, MaxBytes, WaitMs *int }
	reads[0].Params(t, &read)
	exit := message{Raw: <-exited}
	var event struct{ Seq int }
	exit.Params(t, &event)
	if read.AfterSeq == nil || *read.AfterSeq != event.Seq-1 || read.MaxBytes != nil || read.WaitMs == nil || *read.WaitMs != 0 {
		t.Errorf("read %s after exited %s", reads[0].Raw, exit.Raw)
	}
	var answer struct {
		SandboxDenied *bool
		Exited        bool
	}
	a1 := s.tap.Messages(answers("process/read"))
	a1[0].Params(t, &answer)
	if answer.SandboxDenied == nil || *answer.SandboxDenied || !answer.Exited {
		t.Errorf("answer %s", a1[0].Raw)
	}
}

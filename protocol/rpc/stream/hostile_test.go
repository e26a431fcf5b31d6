package stream

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/protocol/wire"
)

// speaker is a client that says what it wants.
type speaker struct {
	t *testing.T
	a rpc.Connection
	e *end
}

func speak(t *testing.T) *speaker {
	t.Helper()
	a, b := rpc.Pair()
	s := &speaker{t, a, serve(b, Config{})}
	t.Cleanup(func() {
		_ = a.Close()
		<-s.e.done
	})
	return s
}

func (s *speaker) say(msg string) {
	s.t.Helper()
	if err := s.a.Write(s.t.Context(), []byte(msg)); err != nil {
		s.t.Fatal(err)
	}
}

// hear returns the next message.
func (s *speaker) hear() string {
	s.t.Helper()
	msg, err := s.a.Read(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return string(msg)
}

func (s *speaker) want(want string) {
	s.t.Helper()
	if got := s.hear(); got != want {
		s.t.Errorf("got  %s\nwant %s", got, want)
	}
}

// What makes no sense is said, and streams that are not there are no fault.
func TestNonsense(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := speak(t)
		for _, quiet := range []string{
			`{"method":"stream/items","params":{"streamId":"no","items":[1,2]}}`,
			`{"method":"stream/end","params":{"streamId":"no","error":{"message":"x"}}}`,
			`{"method":"stream/credit","params":{"streamId":"no","bytes":1}}`,
			`{"method":"stream/cancel","params":{"streamId":"no"}}`,
		} {
			s.say(quiet)
		}
		for msg, want := range map[string]string{
			`{"method":"stream/items","params":{"streamId":"no","items":{}}}`:          `{"error":{"code":-32602,"message":"stream/items: invalid type: map, expected a sequence"},"id":-1}`,
			`{"method":"stream/items"}`:                                                `{"error":{"code":-32602,"message":"stream/items: invalid type: null, expected struct StreamItemsParams"},"id":-1}`,
			`{"method":"stream/credit","params":{"streamId":"no","bytes":0}}`:          `{"error":{"code":-32602,"message":"a credit has a byte at least, not 0"},"id":-1}`,
			`{"id":1,"method":"give","params":{"stream":{}}}`:                          `{"error":{"code":-32602,"message":"a stream has either a streamId or items"},"id":1}`,
			`{"id":2,"method":"give","params":{"stream":{"streamId":"a","items":[]}}}`: `{"error":{"code":-32602,"message":"a stream has either a streamId or items"},"id":2}`,
			`{"id":3,"method":"give","params":{"stream":{"streamId":""}}}`:             `{"error":{"code":-32602,"message":"the id of a stream has 1 to 128 bytes"},"id":3}`,
			`{"id":4,"method":"ask","params":{"window":0}}`:                            `{"error":{"code":-32602,"message":"the window of a stream has a byte at least, not 0"},"id":4}`,
		} {
			s.say(msg)
			s.want(want)
		}
		s.say(`{"id":5,"method":"give","params":{"stream":{"streamId":"` + strings.Repeat("a", protocol.MaxStreamIDBytes+1) + `"}}}`)
		s.want(`{"error":{"code":-32602,"message":"the id of a stream has 1 to 128 bytes"},"id":5}`)
	})
}

// A writer that has no credit, or sends too much at once, loses its stream and nothing
// else. No more is kept than was allowed.
func TestWriterBreaksTheRules(t *testing.T) {
	big := func(n int) string { return `[{"n":1,"text":"` + strings.Repeat("x", n) + `"}]` }
	for name, tt := range map[string]struct {
		items []string
		fault string
	}{
		"without credit": {
			[]string{big(protocol.StreamWindow), big(1)}, "stream/items was sent without credit",
		},
		"too long": {
			[]string{big(protocol.MaxStreamItemsBytes)}, "stream/items is too long",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := speak(t)
				s.e.service.gate = make(chan struct{}) // it does not read on
				s.say(`{"id":1,"method":"give","params":{"stream":{"streamId":"a"}}}`)
				s.want(`{"method":"stream/credit","params":{"streamId":"a","bytes":1048576}}`)
				for i, items := range tt.items {
					if i == 0 && len(tt.items) > 1 {
						s.say(`{"method":"stream/items","params":{"streamId":"a","items":[{"n":5,"text":""}]}}`)
						synctest.Wait() // it is being taken
					}
					s.say(`{"method":"stream/items","params":{"streamId":"a","items":` + items + `}}`)
				}
				synctest.Wait()
				if in := s.e.service.set.findIn("a"); in != nil {
					t.Error("the stream is still there")
				}
				s.say(`{"method":"stream/items","params":{"streamId":"a","items":[1]}}`) // on its way
				close(s.e.service.gate)
				got := []string{s.hear(), s.hear()} // in any order
				slices.Sort(got)
				want := []string{
					fmt.Sprintf(`{"error":{"code":-32603,"message":%q},"id":1}`, tt.fault),
					fmt.Sprintf(`{"method":"stream/cancel","params":{"streamId":"a","error":{"code":"EPROTOCOL","message":%q}}}`, tt.fault),
				}
				if !slices.Equal(got, want) {
					t.Errorf("got %q, want %q", got, want)
				}
				s.say(`{"id":2,"method":"ping"}`)
				s.want(`{"id":2,"result":{}}`)
			})
		})
	}
}

// What of a connection's streams is not read stays within the limits, whatever is sent.
func TestUnreadDataAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := speak(t)
		s.e.service.gate = make(chan struct{})
		for i := range protocol.MaxStreamsIn {
			s.say(fmt.Sprintf(`{"id":%d,"method":"give","params":{"stream":{"streamId":"%d"}}}`, i, i))
			s.want(fmt.Sprintf(`{"method":"stream/credit","params":{"streamId":"%d","bytes":1048576}}`, i))
		}
		s.say(`{"id":100,"method":"give","params":{"stream":{"streamId":"more"}}}`)
		s.want(fmt.Sprintf(`{"error":{"code":-32600,"message":"at most %d streams may be sent at a time per connection"},"id":100}`, protocol.MaxStreamsIn))
		s.say(`{"id":101,"method":"give","params":{"stream":{"streamId":"0"}}}`)
		s.want("{\"error\":{\"code\":-32602,\"message\":\"the stream `0` is open already\"},\"id\":101}")
		go func() { // what is said of broken rules
			for {
				if _, err := s.a.Read(context.Background()); err != nil {
					return
				}
			}
		}()
		const each = 400_000
		items := `[{"n":1,"text":"` + strings.Repeat("x", each) + `"}]`
		for range 8 {
			for i := range protocol.MaxStreamsIn {
				s.say(fmt.Sprintf(`{"method":"stream/items","params":{"streamId":"%d","items":%s}}`, i, items))
			}
			synctest.Wait()
			unread := 0
			set := s.e.service.set
			set.mu.Lock()
			for _, in := range set.in {
				in.mu.Lock()
				for _, a := range in.queue {
					unread += len(a.items)
				}
				in.mu.Unlock()
			}
			set.mu.Unlock()
			if most := protocol.MaxStreamsIn * (protocol.StreamWindow + protocol.MaxStreamItemsBytes); unread > most {
				t.Fatalf("%d bytes are kept, %d at most", unread, most)
			}
		}
	})
}

// Nor do messages of a few bytes take more than those bytes.
func TestShortMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := speak(t)
		s.e.service.gate = make(chan struct{})
		s.say(`{"id":1,"method":"give","params":{"stream":{"streamId":"a"}}}`)
		s.hear()
		const count = 20_000
		for i := range count {
			items := `[{"n":1,"text":""}]`
			if i%2 == 0 {
				items = `[ ]`
			}
			s.say(`{"method":"stream/items","params":{"streamId":"a","items":` + items + `}}`)
		}
		synctest.Wait()
		in := s.e.service.set.findIn("a")
		in.mu.Lock()
		n, room := len(in.queue), 0
		for _, a := range in.queue {
			room += cap(a.items)
		}
		in.mu.Unlock()
		if n > 2*count*20/shortArrival || room > 4*count*20 {
			t.Errorf("%d messages of some bytes are kept as %d, with room for %d bytes", count, n, room)
		}
		s.say(`{"method":"stream/end","params":{"streamId":"a"}}`)
		close(s.e.service.gate)
		s.want(fmt.Sprintf(`{"id":1,"result":{"stream":{"streamId":""},"sum":%d}}`, count/2))
	})
}

// So do the streams that a client opens and does not read.
func TestTooManyStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := speak(t)
		const size = 1000
		for i := range protocol.MaxStreamsOut {
			s.say(fmt.Sprintf(`{"id":%d,"method":"ask","params":{"count":1000000,"size":%d,"window":1}}`, i, size))
			s.want(fmt.Sprintf(`{"id":%d,"result":{"stream":{"streamId":"%d"},"sum":0}}`, i, i+1))
			if got := s.hear(); !strings.HasPrefix(got, `{"method":"stream/items",`) {
				t.Fatal(got)
			}
		}
		synctest.Wait()
		if n := s.e.service.count(1_000_000); n != protocol.MaxStreamsOut {
			t.Errorf("%d items were taken for windows of one byte", n)
		}
		s.say(`{"id":1000,"method":"ask","params":{}}`)
		s.want(fmt.Sprintf(`{"error":{"code":-32600,"message":"at most %d streams may be open per connection"},"id":1000}`, protocol.MaxStreamsOut))
		s.say(`{"method":"stream/cancel","params":{"streamId":"7"}}`)
		<-s.e.service.closed
		synctest.Wait()
		s.say(`{"id":1001,"method":"ask","params":{}}`)
		s.want(fmt.Sprintf(`{"id":1001,"result":{"stream":{"streamId":"%d"},"sum":0}}`, protocol.MaxStreamsOut+1))
	})
}

// Credit cannot overflow.
func TestMuchCredit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := speak(t)
		s.e.service.gate = make(chan struct{})
		s.say(`{"id":1,"method":"ask","params":{"count":1,"window":9223372036854775807}}`)
		s.want(`{"id":1,"result":{"stream":{"streamId":"1"},"sum":0}}`)
		for range 3 {
			s.say(`{"method":"stream/credit","params":{"streamId":"1","bytes":9223372036854775807}}`)
		}
		synctest.Wait()
		o := s.e.service.set.findOut("1")
		o.mu.Lock()
		credit := o.credit
		o.mu.Unlock()
		if credit != protocol.MaxStreamCredit {
			t.Errorf("the credit is %d", credit)
		}
		close(s.e.service.gate)
		if got := s.hear(); !strings.Contains(got, `"n":1`) {
			t.Error(got)
		}
	})
}

// FuzzNotifications sends an end what a peer may send. Whatever it is, streams stay
// within their limits and the connection works.
func FuzzNotifications(f *testing.F) {
	f.Add(`{"method":"stream/items","params":{"streamId":"a","items":[{"n":1,"text":""}]}}` + "\n" + `{"method":"stream/end","params":{"streamId":"a"}}`)
	f.Add(`{"method":"stream/credit","params":{"streamId":"1","bytes":5}}` + "\n" + `{"method":"stream/cancel","params":{"streamId":"1","error":{"message":"x"}}}`)
	f.Add(`{"id":7,"method":"give","params":{"stream":{"streamId":"b"}}}` + "\n" + `{"method":"stream/items","params":{"streamId":"b","items":[[],{},null]}}`)
	f.Add(`{"id":7,"method":"give","params":{"strqam":{"streamId":"b"}}}`)
	f.Add(`{"id":7,"method":"give","params":{"stream":{"items":[{"n":-1,"text":""}]}}}`)
	f.Add(`{"method":"stream/end","params":{"streamId":"a","error":{"code":"E","message":"","path":"/"}}}`)
	f.Fuzz(func(t *testing.T, script string) {
		synctest.Test(t, func(t *testing.T) {
			s := speak(t)
			heard := make(chan string, 4096)
			go func() {
				defer close(heard)
				for {
					msg, err := s.a.Read(context.Background())
					if err != nil {
						return
					}
					env, err := wire.ParseEnvelope(msg, wire.Limits{})
					if err != nil {
						t.Errorf("%s: %v", msg, err)
					}
					if num, _ := env.ID.Int(); env.Kind == wire.Response && num == 1<<40 {
						heard <- string(msg)
						return
					}
				}
			}()
			s.say(`{"id":1,"method":"ask","params":{"count":3,"size":10,"window":20}}`)
			s.say(`{"id":2,"method":"give","params":{"stream":{"streamId":"a"}}}`)
			for line := range strings.Lines(script) {
				s.say(line)
			}
			s.say(fmt.Sprintf(`{"id":%d,"method":"ping"}`, 1<<40))
			if msg := <-heard; msg != fmt.Sprintf(`{"id":%d,"result":{}}`, 1<<40) {
				t.Errorf("the connection does not work any more: %q", msg)
			}
		})
	})
}

package stream

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/wsd-dev/wsd/protocol"
)

// A peer may send a request and the stream that it names in one write. Nothing of the
// stream is lost before the request is served.
func TestF3StreamRightBehindItsRequest(t *testing.T) {
	const (
		items   = `{"method":"stream/items","params":{"streamId":"a","items":[{"n":1,"text":""},{"n":2,"text":""}]}}`
		more    = `{"method":"stream/items","params":{"streamId":"a","items":[{"n":4,"text":""}]}}`
		ended   = `{"method":"stream/end","params":{"streamId":"a"}}`
		broken  = `{"method":"stream/end","params":{"streamId":"a","error":{"message":"no more"}}}`
		garbled = `{"method":"stream/items","params":{"streamId":"a","items":{}}}`
		lost    = `{"error":{"code":-32602,"message":"stream/items: invalid type: map, expected a sequence"},"id":-1}`
		bad     = "a notification of the stream does not decode"
	)
	answered := func(sum int) string { return fmt.Sprintf(`{"id":2,"result":{"stream":{"streamId":""},"sum":%d}}`, sum) }
	failed := func(text string) string { return fmt.Sprintf(`{"error":{"code":-32603,"message":%q},"id":2}`, text) }
	cancel := `{"method":"stream/cancel","params":{"streamId":"a","error":{"code":"EPROTOCOL","message":"` + bad + `"}}}`
	for name, tt := range map[string]struct {
		say, early, want []string
	}{
		"an end":               {[]string{ended}, nil, []string{answered(0)}},
		"items and an end":     {[]string{items, more, ended}, nil, []string{answered(7)}},
		"an error":             {[]string{items, broken}, nil, []string{failed("no more")}},
		"items without a list": {[]string{garbled, items, ended}, []string{lost, cancel}, []string{failed(bad)}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := speak(t)
				s.e.service.gate = make(chan struct{}, 8)
				s.say(`{"id":1,"method":"hold","params":{}}`)
				s.say(`{"id":2,"method":"give","params":{"stream":{"streamId":"a"}}}`)
				for _, msg := range tt.say {
					s.say(msg)
				}
				s.wantAll(tt.early...)
				synctest.Wait()
				for range cap(s.e.service.gate) {
					s.e.service.gate <- struct{}{}
				}
				s.want(`{"id":1,"result":{}}`)
				s.wantAll(tt.want...)
				if in := s.e.service.set.findIn("a"); in != nil {
					t.Error("the stream is still there")
				}
			})
		})
	}
}

// wantAll hears messages in any order.
func (s *speaker) wantAll(want ...string) {
	s.t.Helper()
	left := map[string]bool{}
	for _, w := range want {
		left[w] = true
	}
	for range want {
		if got := s.hear(); !left[got] {
			s.t.Errorf("got %s, which is not among %q", got, want)
		}
	}
}

// Items that come before the request is served count as those that come later do.
func TestF3EarlyItemsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := speak(t)
		s.e.service.gate = make(chan struct{})
		s.say(`{"id":1,"method":"hold","params":{}}`)
		for i := range protocol.MaxStreamsIn {
			s.say(fmt.Sprintf(`{"id":%d,"method":"give","params":{"stream":{"streamId":"%d"}}}`, 100+i, i))
		}
		s.say(`{"id":2,"method":"give","params":{"stream":{"streamId":"more"}}}`)
		s.want(fmt.Sprintf(`{"error":{"code":-32600,"message":"at most %d streams may be sent at a time per connection"},"id":2}`, protocol.MaxStreamsIn))
		s.say(`{"method":"stream/end","params":{"streamId":"0"}}`) // which still has its place
		s.say(`{"id":3,"method":"give","params":{"stream":{"streamId":"0"}}}`)
		s.want("{\"error\":{\"code\":-32602,\"message\":\"the stream `0` is open already\"},\"id\":3}")
	})
}

// A message that cannot be used ends the streams that it may have been of: a reader that
// went on would miss items, and take the rest for all of them.
func TestF9LostItemsEndTheirStream(t *testing.T) {
	for name, tt := range map[string]struct{ message, told, why string }{
		"no list": {
			`{"method":"stream/items","params":{"streamId":"a","items":{}}}`,
			`{"error":{"code":-32602,"message":"stream/items: invalid type: map, expected a sequence"},"id":-1}`,
			"a notification of the stream does not decode",
		},
		"an end with a number": {
			`{"method":"stream/end","params":{"streamId":"a","error":5}}`,
			`{"error":{"code":-32602,"message":"stream/end: invalid type: number ` + "`5`" + `, expected struct NamedError"},"id":-1}`,
			"a notification of the stream does not decode",
		},
		"no id": {
			`{"method":"stream/items","params":{"items":[{"n":1,"text":""}]}}`,
			"{\"error\":{\"code\":-32602,\"message\":\"stream/items: missing field `streamId`\"},\"id\":-1}",
			"a message cannot be read, which may have been of the stream",
		},
		"no parameters": {
			`{"method":"stream/items"}`,
			`{"error":{"code":-32602,"message":"stream/items: invalid type: null, expected struct StreamItemsParams"},"id":-1}`,
			"a message cannot be read, which may have been of the stream",
		},
		"no JSON": {
			`{"method":"stream/items","params":{"streamId":"a","items":[{"n":1,}]}}`,
			`{"error":{"code":-32600,"message":"failed to parse JSON-RPC message: key must be a string at byte 66"},"id":-1}`,
			"a message cannot be read, which may have been of the stream",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := speak(t)
				s.say(`{"id":1,"method":"give","params":{"stream":{"streamId":"a"}}}`)
				s.want(`{"method":"stream/credit","params":{"streamId":"a","bytes":1048576}}`)
				s.say(`{"method":"stream/items","params":{"streamId":"a","items":[{"n":1,"text":""}]}}`)
				s.say(tt.message)
				s.say(`{"method":"stream/end","params":{"streamId":"a"}}`)
				s.wantAll(tt.told,
					fmt.Sprintf(`{"error":{"code":-32603,"message":%q},"id":1}`, tt.why),
					fmt.Sprintf(`{"method":"stream/cancel","params":{"streamId":"a","error":{"code":"EPROTOCOL","message":%q}}}`, tt.why))
			})
		})
	}
}

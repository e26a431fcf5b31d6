package process

import (
	"testing"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/wire"
)

func digestOf(t *testing.T, text string) [32]byte {
	t.Helper()
	var p protocol.StartParams
	if err := wire.Unmarshal([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	sum, err := digest(&p)
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

func TestDigest(t *testing.T) {
	base := digestOf(t, `{"processId":"p","argv":["a","b"],"cwd":"file:///","env":{"A":"1","B":"2"},"tty":false}`)
	for name, text := range map[string]string{
		"order and spelling": `{"tty":false,"env":{"B":"2","A":"\u0031"},"cwd":"file:///","argv":["a","b"],"processId":"p"}`,
		"defaults":           `{"processId":"p","argv":["a","b"],"cwd":"file:///","env":{"A":"1","B":"2"},"tty":false,"pipeStdin":false,"arg0":null,"envPolicy":null,"sandbox":null,"enforceManagedNetwork":false,"managedNetwork":null,"timeoutMs":null,"size":null}`,
		"metadata":           `{"processId":"p","argv":["a","b"],"cwd":"file:///","env":{"A":"1","B":"2"},"tty":false,"metadata":{"threadId":null,"toolCallId":"x"}}`,
	} {
		if digestOf(t, text) != base {
			t.Errorf("%s: another digest", name)
		}
	}
	for name, text := range map[string]string{
		"argv":      `{"processId":"p","argv":["ab"],"cwd":"file:///","env":{"A":"1","B":"2"},"tty":false}`,
		"cwd":       `{"processId":"p","argv":["a","b"],"cwd":"file:///x","env":{"A":"1","B":"2"},"tty":false}`,
		"env":       `{"processId":"p","argv":["a","b"],"cwd":"file:///","env":{"A":"1","B":"3"},"tty":false}`,
		"tty":       `{"processId":"p","argv":["a","b"],"cwd":"file:///","env":{"A":"1","B":"2"},"tty":true}`,
		"arg0":      `{"processId":"p","argv":["a","b"],"cwd":"file:///","env":{"A":"1","B":"2"},"tty":false,"arg0":""}`,
		"timeoutMs": `{"processId":"p","argv":["a","b"],"cwd":"file:///","env":{"A":"1","B":"2"},"tty":false,"timeoutMs":1}`,
		"pipeStdin": `{"processId":"p","argv":["a","b"],"cwd":"file:///","env":{"A":"1","B":"2"},"tty":false,"pipeStdin":true}`,
	} {
		if digestOf(t, text) == base {
			t.Errorf("%s: the same digest", name)
		}
	}
}

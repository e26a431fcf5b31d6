package lineconn

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/protocol/rpc/rpctest"
)

func TestConnection(t *testing.T) {
	rpctest.TestConnection(t, func(t *testing.T) (rpc.Connection, rpc.Connection) {
		l, err := net.Listen("unix", t.TempDir()+"/s")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		a, err := net.Dial("unix", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		b, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return New(a, a, a.Close), New(b, b, b.Close)
	})
}

func TestLines(t *testing.T) {
	long := strings.Repeat("z", 3*readBuffer)
	c := New(strings.NewReader("one\r\n\n  \ntwo\n"+long+"\nlast, without an end"), io.Discard, nil)
	defer c.Close()
	for _, want := range []string{"one", "two", long, "last, without an end"} {
		got, err := c.Read(t.Context())
		if err != nil || string(got) != want {
			t.Fatalf("got %.30q, %v; want %.30q", got, err, want)
		}
	}
	for range 2 {
		if _, err := c.Read(t.Context()); err != io.EOF {
			t.Errorf("got %v, want io.EOF", err)
		}
	}
}

func TestTooLong(t *testing.T) {
	for name, input := range map[string]string{
		"with an end":    strings.Repeat("z", 100_001) + "\nmore\n",
		"without an end": strings.Repeat("z", 200_000),
	} {
		t.Run(name, func(t *testing.T) {
			c := New(strings.NewReader(input), io.Discard, nil)
			c.max = 100_000
			defer c.Close()
			if _, err := c.Read(t.Context()); !errors.Is(err, rpc.ErrTooLarge) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestOneWriteAMessage(t *testing.T) {
	var w countingWriter
	c := New(strings.NewReader(""), &w, nil)
	defer c.Close()
	if err := c.Write(t.Context(), []byte("{}")); err != nil {
		t.Fatal(err)
	}
	if w.n != 1 || w.String() != "{}\n" {
		t.Errorf("%d writes of %q", w.n, w.String())
	}
}

type countingWriter struct {
	bytes.Buffer
	n int
}

func (w *countingWriter) Write(p []byte) (int, error) {
	w.n++
	return w.Buffer.Write(p)
}

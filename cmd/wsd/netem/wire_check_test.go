//go:build e2e && linux

package netem

import (
	"io"
	"net"
	"net/netip"
	"testing"
	"time"
)

// The wire itself: what it loses, delays and stops, TCP notices.
func TestWire(t *testing.T) {
	t.Parallel()
	w := newWire(t, 1)
	a, b := newMachine(t, w, netip.MustParseAddr("10.77.0.1")), newMachine(t, w, netip.MustParseAddr("10.77.0.2"))
	w.setWeather(b.port, Weather{Loss: 0.05, Delay: 20 * time.Millisecond, Jitter: 5 * time.Millisecond, Reorder: 0.05})
	var l net.Listener
	err := a.do(func() (err error) { l, err = net.Listen("tcp", "10.77.0.1:80"); return err })
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = io.Copy(c, io.LimitReader(zeros{}, 8<<20))
		c.Close()
	}()
	var c net.Conn
	began := time.Now()
	err = b.do(func() (err error) { c, err = net.Dial("tcp", "10.77.0.1:80"); return err })
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if took := time.Since(began); took < 40*time.Millisecond {
		t.Errorf("a round trip of 40 ms took %v", took)
	}
	n, err := io.Copy(io.Discard, c)
	if n != 8<<20 || err != nil {
		t.Fatalf("%d bytes, %v", n, err)
	}
	passed, lost, strays := w.counts(b.port)
	t.Logf("%d bytes in %v: %d packets, %d lost, %d strays", n, time.Since(began), passed, lost, strays)
	if share := float64(lost) / float64(passed+lost); share < 0.02 || share > 0.1 {
		t.Errorf("lost %.3f of the packets", share)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

package rpc

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// quick serves requests that are said to be quick, whether they are or not.
func quickTable() *Table {
	t := NewTable()
	lane := func(p *slowParams) Order { return Quick(Serial(p.Name)) }
	Handle(t, Spec[slowParams]{Name: "quick", Order: lane}, slow.sleep)
	Handle(t, Spec[slowParams]{Name: "waits", Order: lane}, func(s slow, ctx context.Context, p *slowParams) (*slowResult, error) {
		Async(ctx)
		return s.sleep(ctx, p)
	})
	Handle(t, Spec[slowParams]{Name: "deaf", Order: lane}, func(_ slow, _ context.Context, p *slowParams) (*slowResult, error) {
		time.Sleep(time.Duration(p.Ms) * time.Millisecond) // as a system call does, whatever becomes of the connection
		return &slowResult{p.Name}, nil
	})
	return t
}

// quickly is raw for quickTable.
func quickly(t *testing.T, cfg DispatcherConfig, body func(wire Connection, served <-chan error)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		scope := quickTable().NewScope()
		scope.Bind(slow{})
		a, b := Pair()
		d := NewDispatcher(scope, cfg)
		server := NewPeer(a, PeerConfig{Handler: dispatching{d}})
		served := make(chan error, 1)
		ctx, cancel := context.WithCancel(context.Background())
		go func() { served <- server.Serve(ctx) }()
		body(b, served)
		cancel()
		server.Close()
		b.Close()
		d.Wait()
	})
}

// A request that is not as quick as its method promises holds up neither what is read
// behind it, nor longer than twice quickTime, and its lane keeps its order.
func TestQuickThatIsSlow(t *testing.T) {
	quickly(t, DispatcherConfig{}, func(c Connection, _ <-chan error) {
		began := time.Now()
		exchange(t, c, []string{
			`{"id":1,"method":"quick","params":{"name":"a","ms":50000}}`,
			`{"id":2,"method":"quick","params":{"name":"a"}}`,
			`{"id":3,"method":"quick","params":{"name":"b"}}`,
		}, []string{`{"id":3,"result":{"name":"b"}}`})
		if took := time.Since(began); took > 2*quickTime {
			t.Errorf("another lane was held up for %v", took)
		}
		exchange(t, c, nil, []string{`{"id":1,"result":{"name":"a"}}`, `{"id":2,"result":{"name":"a"}}`})
	})
}

// One that says it will wait is not waited for at all, nor are several.
func TestQuickThatWaits(t *testing.T) {
	quickly(t, DispatcherConfig{}, func(c Connection, _ <-chan error) {
		began := time.Now()
		exchange(t, c, []string{
			`{"id":1,"method":"waits","params":{"name":"a","ms":50000}}`,
			`{"id":2,"method":"waits","params":{"name":"a","ms":40000}}`,
			`{"id":3,"method":"quick","params":{"name":"a"}}`,
			`{"id":4,"method":"quick","params":{"name":"b"}}`,
		}, []string{`{"id":3,"result":{"name":"a"}}`, `{"id":4,"result":{"name":"b"}}`})
		if took := time.Since(began); took != 0 {
			t.Errorf("it was waited for %v", took)
		}
		// The watch of one that is slow now is not ended by those that waited before.
		exchange(t, c, []string{
			`{"id":5,"method":"deaf","params":{"name":"c","ms":45000}}`,
			`{"id":6,"method":"quick","params":{"name":"d"}}`,
		}, []string{`{"id":6,"result":{"name":"d"}}`})
		exchange(t, c, nil, []string{`{"id":2,"result":{"name":"a"}}`, `{"id":5,"result":{"name":"c"}}`, `{"id":1,"result":{"name":"a"}}`})
	})
}

// The end of the connection is seen and told although the goroutine that read first is
// still busy.
func TestQuickThatOutlivesTheConnection(t *testing.T) {
	quickly(t, DispatcherConfig{}, func(c Connection, served <-chan error) {
		exchange(t, c, []string{`{"id":1,"method":"deaf","params":{"name":"a","ms":50000}}`}, nil)
		began := time.Now()
		c.Close()
		<-served
		if took := time.Since(began); took > 2*quickTime {
			t.Errorf("told after %v", took)
		}
	})
}

// With one request at a time all of them keep their order, quick ones too.
func TestQuickInOrder(t *testing.T) {
	quickly(t, DispatcherConfig{Concurrency: 1}, func(c Connection, _ <-chan error) {
		exchange(t, c, []string{
			`{"id":1,"method":"quick","params":{"name":"a","ms":50000}}`,
			`{"id":2,"method":"quick","params":{"name":"b"}}`,
		}, []string{`{"id":1,"result":{"name":"a"}}`, `{"id":2,"result":{"name":"b"}}`})
	})
}

// The watchdog looks no more once nothing runs, and again for what comes later.
func TestWatchdogRests(t *testing.T) {
	quickly(t, DispatcherConfig{}, func(c Connection, _ <-chan error) {
		for range 3 {
			exchange(t, c, []string{`{"id":1,"method":"quick","params":{"name":"a"}}`}, []string{`{"id":1,"result":{"name":"a"}}`})
			time.Sleep(time.Hour) // of fake time; a timer that goes on would make it long
			exchange(t, c, []string{
				`{"id":2,"method":"deaf","params":{"name":"a","ms":1000}}`, `{"id":3,"method":"quick","params":{"name":"b"}}`,
			}, []string{`{"id":3,"result":{"name":"b"}}`, `{"id":2,"result":{"name":"a"}}`})
		}
	})
}

func TestSubmitHere(t *testing.T) {
	s := newScheduler(2)
	ran := 0
	quick := func(lane string) *task { return &task{order: Quick(Serial(lane)), run: func(*task) { ran++ }} }
	first := quick("a")
	if !s.submit(first) {
		t.Fatal("not here, although nothing runs")
	}
	block := make(chan struct{})
	other := &task{order: Serial("b"), run: func(*task) { <-block }}
	if s.submit(other) {
		t.Error("one that is not quick runs here")
	}
	s.runHere(first)
	if s.submit(&task{order: Quick(Serial("c")), run: func(*task) {}}) {
		t.Error("here, although something runs")
	}
	close(block)
	s.wait()
	if !s.submit(quick("b")) || ran != 1 {
		t.Errorf("not here again; %d ran", ran)
	}
}

package shell_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/wsd-dev/wsd/process/shell"
	"github.com/wsd-dev/wsd/protocol"
)

// modelLog is the cap of the model's log: a few of its events, so that it is often too
// much, sometimes while a follower is reading.
const modelLog = 700 << 10

// A step is what the model does next: print something, take some events, leave, come
// back (after what was taken last), or come back to the present.
type step struct {
	Do string
	N  int
}

// A model is one run, what its child has printed, and where its follower is.
type model struct {
	s       *shell.Shell
	store   *memory
	child   *fakeChild
	printed []int // sizes; event i+1 is printed[i]
	events  shell.Events
	last    uint64 // number of the newest event that was taken
}

// A follower that comes and goes, however fast or slow it is and whatever the log does,
// gets each event once, in order and whole, or is told that the log is incomplete.
func TestModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		plan := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) step {
			return step{
				Do: rapid.SampledFrom([]string{"print", "print", "print", "print", "take", "leave", "come", "come", "tail"}).Draw(rt, "do"),
				N:  rapid.IntRange(1, 64).Draw(rt, "n"),
			}
		}), 0, 150).Draw(rt, "plan")
		var failure error
		synctest.Test(t, func(*testing.T) { failure = runModel(plan) })
		if failure != nil {
			rt.Fatal(failure)
		}
	})
}

func runModel(plan []step) (err error) {
	ctx := context.Background()
	m := &model{store: new(memory)}
	spawner := new(fakeSpawner)
	s, end, err := config{Store: m.store, Config: shell.Config{Spawner: spawner, MaxLogBytes: modelLog}}.open()
	if err != nil {
		return err
	}
	m.s = s
	defer func() { err = errors.Join(err, end()) }()
	if _, m.events, err = m.s.Exec(ctx, shell.Request{ID: "x", Timeout: timeout(0)}); err != nil {
		return err
	}
	m.child = spawner.child(0)
	for i, st := range plan {
		if err := m.do(ctx, st); err != nil {
			return fmt.Errorf("step %d: %s %d: %w", i, st.Do, st.N, err)
		}
	}
	m.child.exit(7)
	if m.events == nil {
		if err := m.come(ctx, shell.After{Seq: m.last}); err != nil || m.events == nil {
			return err
		}
	}
	for {
		switch e, err := m.events.Next(ctx); {
		case errors.Is(err, io.EOF):
			if want := uint64(len(m.printed) + 1); m.last != want {
				return fmt.Errorf("it ends after event %d of %d", m.last, want)
			}
			return nil
		case err != nil:
			return err
		default:
			if err := m.took(e); err != nil {
				return err
			}
		}
	}
}

func (m *model) do(ctx context.Context, st step) error {
	switch st.Do {
	case "print":
		size := (st.N%4 + 1) << 14
		m.printed = append(m.printed, size)
		stream := []string{shell.Stdout, shell.Stderr}[len(m.printed)%2] // else short ones become one event
		m.child.out.printTo(stream, strings.Repeat(fmt.Sprint(len(m.printed)%10), size))
	case "take":
		for range st.N % 16 {
			if m.events == nil {
				return nil
			}
			if err := m.take(ctx); err != nil {
				return err
			}
		}
	case "leave":
		if m.events != nil {
			m.events.Close()
			m.events = nil
		}
	case "come":
		return m.come(ctx, shell.After{Seq: m.last})
	case "tail":
		synctest.Wait()
		was := m.events != nil
		if err := m.come(ctx, shell.After{Tail: true}); err != nil || was {
			return err
		}
		m.last = uint64(len(m.printed)) // nobody held the command up: all was read
	}
	return nil
}

// take takes the next event if there is one.
func (m *model) take(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	e, err := m.events.Next(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		if m.last != uint64(len(m.printed)) {
			return fmt.Errorf("nothing comes after event %d of %d", m.last, len(m.printed))
		}
		return nil
	}
	if err != nil {
		return err
	}
	return m.took(e)
}

func (m *model) took(e shell.Event) error {
	if e.Seq != m.last+1 {
		return fmt.Errorf("event %d follows %d", e.Seq, m.last)
	}
	m.last = e.Seq
	if e.Name == shell.Exit {
		if e.Code != 7 || int(e.Seq) != len(m.printed)+1 {
			return fmt.Errorf("exit %d is event %d after %d", e.Code, e.Seq, len(m.printed))
		}
		return nil
	}
	if want := fmt.Sprint(e.Seq % 10); len(e.Data) != m.printed[e.Seq-1] || strings.Trim(string(e.Data), want) != "" {
		return fmt.Errorf("event %d has %d bytes, want %d of %s", e.Seq, len(e.Data), m.printed[e.Seq-1], want)
	}
	return nil
}

// come follows the run, unless it is followed or its log says that it is incomplete.
func (m *model) come(ctx context.Context, after shell.After) error {
	synctest.Wait()
	events, err := m.s.GetExec(ctx, "x", after)
	if e, ok := errors.AsType[*protocol.NamedError](err); ok {
		rec, findErr := m.store.Find(ctx, "x")
		switch {
		case findErr != nil:
			return findErr
		case e.Code == shell.CodeBusy && m.events != nil, e.Code == shell.CodeTruncated && rec.Evicted && (!after.Tail || rec.Ended):
			return nil
		}
	}
	if err != nil {
		return err
	}
	if m.events != nil {
		return errors.New("a second follower")
	}
	m.events = events
	return nil
}

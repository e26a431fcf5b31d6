package capnweb

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/wsd-dev/wsd/protocol/rpc"
)

// A purse is a Memory of so many bytes.
type purse struct {
	mu   sync.Mutex
	size int64
	used int64
	most int64
}

func (p *purse) Take(_ context.Context, n int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.used+n > p.size {
		return errors.New("no memory")
	}
	p.used += n
	return nil
}

func (p *purse) Force(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used += n
	p.most = max(p.most, p.used)
}

func (p *purse) Give(n int64) { p.Force(-n) }

func (p *purse) Over() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used > p.size
}

func (p *purse) held() (used, most int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used, p.most
}

// A session that a peer has hold more than its share rejects what it sends next, whatever
// that is, and holds nothing once it has ended.
func TestSM4SessionsHaveShares(t *testing.T) {
	const size = 64 << 10
	big := strings.Repeat("x", size/8)
	for name, msg := range map[string]string{
		"values":  `["push","` + big + `"]`,
		"calls":   `["push",["pipeline",0,["wait"],["` + big + `"]]]`,
		"results": `["push",["pipeline",0,["grow"],[]]]`,
	} {
		t.Run(name, func(t *testing.T) {
			p := &purse{size: size}
			main, gate := NewTarget(), make(chan struct{})
			main.Handle("wait", Func1(func(ctx context.Context, _ string) (string, error) {
				select {
				case <-gate:
				case <-ctx.Done():
				}
				return "", nil
			}))
			main.Handle("grow", Func0(func(context.Context) (string, error) { return big, nil }))
			s, conn := raw(t, Config{Main: main, Memory: p})
			ctx := aMinute(t)
			const calls = 100
			for i := 1; i <= calls; i++ {
				tell(ctx, t, conn, msg, fmt.Sprintf(`["pull",%d]`, i))
			}
			if answer := readUntil(ctx, t, conn, `["reject"`); !strings.Contains(answer, `["error","RangeError","memory is in use`) {
				t.Error(answer)
			}
			for i := 1; i <= calls; i++ { // the first go on
				tell(ctx, t, conn, fmt.Sprintf(`["release",%d,1]`, i))
			}
			close(gate)
			for id := calls + 1; ; id++ { // until they have ended
				tell(ctx, t, conn, `["push",["pipeline",0,["grow"],[]]]`, fmt.Sprintf(`["pull",%d]`, id))
				answer := ""
				for !strings.Contains(answer, fmt.Sprintf(`",%d,`, id)) {
					answer = readUntil(ctx, t, conn, `["re`)
				}
				tell(ctx, t, conn, fmt.Sprintf(`["release",%d,1]`, id))
				if strings.HasPrefix(answer, `["resolve"`) {
					break
				}
			}
			if _, most := p.held(); most > 3*size {
				t.Errorf("it held %d bytes", most)
			}
			s.Close()
			if used, _ := p.held(); used != 0 {
				t.Errorf("%d bytes are left", used)
			}
		})
	}
}

// A stream whose chunks nobody takes fails when the session holds more than its share.
func TestSM4StreamsHaveShares(t *testing.T) {
	p := &purse{size: 64 << 10}
	s, conn := raw(t, Config{Main: NewTarget(), Memory: p})
	ctx := aMinute(t)
	tell(ctx, t, conn, `["pipe"]`)
	chunk := strings.Repeat("x", 8<<10)
	for range 20 {
		tell(ctx, t, conn, `["stream",["pipeline",1,["write"],["`+chunk+`"]]]`)
	}
	if answer := readUntil(ctx, t, conn, `["reject"`); !strings.Contains(answer, "memory is in use") {
		t.Error(answer)
	}
	s.Close()
	if used, _ := p.held(); used != 0 {
		t.Errorf("%d bytes are left", used)
	}
}

// A peer that has a session hold many calls while memory is short ends it.
func TestSM4ExportsHaveShares(t *testing.T) {
	p := &purse{size: 64 << 10}
	s, conn := raw(t, Config{Main: NewTarget(), Memory: p})
	ctx := aMinute(t)
	go func() {
		for s.Err() == nil && conn.Write(ctx, []byte(`["pipe"]`)) == nil {
		}
	}()
	if got := readUntil(ctx, t, conn, `["abort"`); !strings.Contains(got, "while memory is in use") {
		t.Error(got)
	}
	_ = s.Wait()
	if used, _ := p.held(); used != 0 {
		t.Errorf("%d bytes are left", used)
	}
}

func tell(ctx context.Context, t *testing.T, conn rpc.Connection, frames ...string) {
	t.Helper()
	for _, f := range frames {
		if err := conn.Write(ctx, []byte(f)); err != nil {
			t.Fatal(err)
		}
	}
}

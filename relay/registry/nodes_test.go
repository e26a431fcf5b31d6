package registry_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsd-dev/wsd/relay/registry"
)

// nobody returns the URL of a port that nobody listens on.
func nobody(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	return "http://" + l.Addr().String()
}

// cut breaks the connection without an answer.
func cut(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		_ = conn.Close()
	}
}

// A node that is gone is passed over, and not asked first the next time.
func TestNextNode(t *testing.T) {
	f := serve(t, reply(200, registered()))
	dead := nobody(t)
	c := client(t, dead, dead, f.URL)
	for range 2 {
		if _, err := c.Register(t.Context(), "lab", newKey(t)); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(f.asked()); n != 2 {
		t.Errorf("asked %d times", n)
	}
}

// A node that answers is believed, whatever it says.
func TestStatusIsNoReasonForTheNextNode(t *testing.T) {
	first := serve(t, reply(500, ""))
	second := serve(t, reply(200, registered()))
	c := client(t, first.URL, second.URL)
	if _, err := c.Register(t.Context(), "lab", newKey(t)); err == nil || len(second.asked()) != 0 {
		t.Fatalf("got %v, second asked %d times", err, len(second.asked()))
	}
	c.Rotate()
	if _, err := c.Register(t.Context(), "lab", newKey(t)); err != nil {
		t.Fatalf("after Rotate: %v", err)
	}
}

// Register goes on after a node that broke off; validate does not, as its
// authorization may be used up, save where nothing was sent.
func TestValidateReachesOneNode(t *testing.T) {
	first := serve(t, cut)
	second := serve(t, reply(200, `{"valid":true}`))
	req := registry.ValidateRequest{HarnessPublicKey: newKey(t)}

	_, err := client(t, first.URL, second.URL).Validate(t.Context(), "lab", "s", req)
	lost, ok := errors.AsType[*registry.UnreachableError](err)
	if !ok || !lost.Sent || len(second.asked()) != 0 {
		t.Fatalf("got %v, second asked %d times", err, len(second.asked()))
	}
	if ok, err := client(t, nobody(t), second.URL).Validate(t.Context(), "lab", "s", req); !ok || err != nil {
		t.Fatalf("with nobody first: %v, %v", ok, err)
	}

	third := serve(t, reply(200, registered()))
	if _, err := client(t, first.URL, third.URL).Register(t.Context(), "lab", newKey(t)); err != nil {
		t.Fatalf("register: %v", err)
	}
}

func TestUnreachable(t *testing.T) {
	_, err := client(t, nobody(t)).Connect(t.Context(), "lab", newKey(t))
	lost, ok := errors.AsType[*registry.UnreachableError](err)
	if !ok || lost.Sent {
		t.Fatalf("got %v", err)
	}
	if !registry.RetryConnect(err) || !registry.RetryRenewal(err) || registry.RetryRegister(err) {
		t.Error("wrong about trying again")
	}
}

// silence is a registry that never answers.
type silence struct{}

func (silence) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestTimeLimits(t *testing.T) {
	key := newKey(t)
	for name, test := range map[string]struct {
		call func(context.Context, *registry.Client) error
		want time.Duration
	}{
		"register": {func(ctx context.Context, c *registry.Client) error {
			_, err := c.Register(ctx, "lab", key)
			return err
		}, 10 * time.Second},
		"connect": {func(ctx context.Context, c *registry.Client) error {
			_, err := c.Connect(ctx, "lab", key)
			return err
		}, 6 * time.Second},
		"validate": {func(ctx context.Context, c *registry.Client) error {
			_, err := c.Validate(ctx, "lab", "s", registry.ValidateRequest{HarnessPublicKey: key})
			return err
		}, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, err := registry.New(registry.Config{BaseURLs: []string{"http://localhost", "http://127.0.0.1"}, Transport: silence{}})
				if err != nil {
					t.Fatal(err)
				}
				begun := time.Now()
				err = test.call(t.Context(), c)
				if _, ok := errors.AsType[*registry.UnreachableError](err); !ok || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v", err)
				}
				if took := time.Since(begun); took != test.want {
					t.Errorf("took %v, want %v", took, test.want)
				}
			})
		})
	}
}

// The caller's own end is told as what it is.
func TestCanceled(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	cancel(why)
	_, err := client(t, nobody(t)).Register(ctx, "lab", newKey(t))
	if !errors.Is(err, why) {
		t.Fatalf("got %v", err)
	}
}

// A registry that closes the connections that were idle, as it reads what comes over them
// next, is asked once more over a new one, however many there were.
func TestIdleConnectionsThatAreClosed(t *testing.T) {
	const idle = 3
	var mu sync.Mutex
	var stale []string
	all := make(chan struct{})
	f := serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		if slices.Contains(stale, r.RemoteAddr) {
			mu.Unlock()
			panic(http.ErrAbortHandler)
		}
		if len(stale) < idle {
			if stale = append(stale, r.RemoteAddr); len(stale) == idle {
				close(all)
			}
		}
		mu.Unlock()
		<-all
		reply(200, registry.ValidateResponse{Valid: true})(w, r)
	})
	c, key := client(t, f.URL), newKey(t)
	validate := func() {
		ok, err := c.Validate(t.Context(), "lab", "s", registry.ValidateRequest{HarnessPublicKey: key})
		if err != nil || !ok {
			t.Errorf("got %v, %v", ok, err)
		}
	}
	var first sync.WaitGroup
	for range idle {
		first.Go(validate)
	}
	first.Wait()
	validate()
	for _, r := range f.asked() {
		if _, sent := r.Header["Idempotency-Key"]; sent {
			t.Error("a header is sent that codex does not send")
		}
	}
}

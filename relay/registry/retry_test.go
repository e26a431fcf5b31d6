package registry_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/relay/registry"
)

// The rows of registry.md, section 3.
func TestRetry(t *testing.T) {
	status := func(code int, text string) error {
		return fmt.Errorf("wrapped: %w", &registry.StatusError{Status: code, Code: text})
	}
	for _, test := range []struct {
		name                       string
		err                        error
		register, renewal, connect bool
	}{
		{"503 conflict", status(503, "registration_conflict"), true, true, true},
		{"502 auth", status(502, "authentication_service_unavailable"), true, true, true},
		{"503 auth", status(503, "authentication_service_unavailable"), false, true, true},
		{"502 conflict", status(502, "registration_conflict"), false, true, true},
		{"500", status(500, ""), false, true, true},
		{"502", status(502, ""), false, true, true},
		{"503", status(503, "x"), false, true, true},
		{"400", status(400, ""), false, false, false},
		{"401", status(401, ""), false, false, false},
		{"403", status(403, ""), false, false, false},
		{"404", status(404, ""), false, false, false},
		{"408", status(408, ""), false, true, true},
		{"409", status(409, ""), false, false, false},
		{"409 offline", status(409, "environment_offline"), false, false, true},
		{"410", status(410, ""), false, false, false},
		{"422", status(422, ""), false, false, false},
		{"429", status(429, ""), false, true, true},
		{"302", status(302, ""), false, false, false},
		{"unreachable", &registry.UnreachableError{Err: errors.New("refused")}, false, true, true},
		{"malformed", &registry.ResponseError{}, false, false, false},
		{"credential", &registry.CredentialError{}, false, false, false},
		{"login", fmt.Errorf("wrapped: %w", &registry.LoginError{Err: errors.New("too many open files")}), false, true, true},
		{"none", nil, false, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := registry.RetryRegister(test.err); got != test.register {
				t.Errorf("register: %v", got)
			}
			if got := registry.RetryRenewal(test.err); got != test.renewal {
				t.Errorf("renewal: %v", got)
			}
			if got := registry.RetryConnect(test.err); got != test.connect {
				t.Errorf("connect: %v", got)
			}
		})
	}
}

// An error that is cut off before its code is no answer, where the code makes a
// difference. (A seed of relay/relaytest lost a stream to it.)
func TestErrorCutOff(t *testing.T) {
	for status, retried := range map[int]bool{409: true, 502: true, 503: true, 401: false, 403: false, 404: false} {
		f := serve(t, func(w http.ResponseWriter, r *http.Request) {
			conn, buffered, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			fmt.Fprintf(buffered, "HTTP/1.1 %d %s\r\nContent-Length: 100\r\n\r\n{\"error\":", status, http.StatusText(status))
			_ = buffered.Flush()
			_ = conn.Close()
		})
		_, err := client(t, f.URL).Connect(t.Context(), "lab", newKey(t))
		if err == nil || registry.RetryConnect(err) != retried {
			t.Errorf("%d: %v", status, err)
		}
	}
}

func TestDelay(t *testing.T) {
	for attempt, base := range []time.Duration{
		500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 5 * time.Second, 5 * time.Second,
	} {
		if got := registry.Delay(attempt, nil); got != base {
			t.Errorf("attempt %d: %v, want %v", attempt, got, base)
		}
		r := rand.New(rand.NewPCG(1, uint64(attempt)))
		least, most := time.Hour, time.Duration(0)
		for range 1000 {
			d := registry.Delay(attempt, r)
			least, most = min(least, d), max(most, d)
		}
		if least < base || least > base+base/20 || most > base+base/2 || most < base+base*9/20 {
			t.Errorf("attempt %d: from %v to %v", attempt, least, most)
		}
	}
	if got := registry.Delay(1<<40, nil); got != 5*time.Second {
		t.Errorf("very late: %v", got)
	}
}

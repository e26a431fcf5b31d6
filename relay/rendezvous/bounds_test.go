package rendezvous

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsd-dev/wsd/relay/registry"
	"github.com/wsd-dev/wsd/relay/seal"
)

// A desk is a node that is asked without sockets, whose executors are attached to another
// node, which lives as long as desk.lives is called.
type desk struct {
	t    *testing.T
	node *Node
	key  *seal.PublicKey
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	node, err := New(Config{State: NewMemory(), PublicURL: "https://relay.example"})
	if err != nil {
		t.Fatal(err)
	}
	id, err := seal.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	return &desk{t, node, id.Public()}
}

func (d *desk) token(role Role) (id, text string) {
	d.t.Helper()
	made, text, err := d.node.tokens.Create(d.t.Context(), Token{Role: role, Environment: AnyEnvironment})
	if err != nil {
		d.t.Fatal(err)
	}
	return made.ID, text
}

func (d *desk) put(bucket Bucket, key string, v any) {
	d.t.Helper()
	if _, err := write(d.t.Context(), d.node.state, bucket, key, v, AnyRevision); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) lives() {
	d.put(BucketNodes, "other", nodeRecord{ID: "other", URL: "https://other.example", Expires: time.Now().Add(NodeLease)})
}

func (d *desk) count(bucket Bucket) int {
	d.t.Helper()
	all, err := d.node.state.List(d.t.Context(), bucket)
	if err != nil {
		d.t.Fatal(err)
	}
	return len(all)
}

func (d *desk) sweep() {
	d.t.Helper()
	if err := d.node.sweep(d.t.Context()); err != nil {
		d.t.Fatal(err)
	}
}

// ask asks the registry and reads a good answer into v.
func (d *desk) ask(op, env, token string, request, v any) (status int, code string) {
	d.t.Helper()
	body, err := json.Marshal(request)
	if err != nil {
		d.t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(d.t.Context(), http.MethodPost, registry.PathPrefix+env+"/"+op, bytes.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	d.node.Handler().ServeHTTP(w, r)
	var refused registry.ErrorBody
	if w.Code != http.StatusOK {
		v = &refused
	}
	if err := json.Unmarshal(w.Body.Bytes(), v); err != nil {
		d.t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	if refused.Error != nil {
		code = refused.Error.Code
	}
	return w.Code, code
}

// A token that asks for authorizations and does not use them gets no more, and others do.
func TestUnusedAuthorizationsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		owner, executor := d.token(RoleExecutor)
		_, flood := d.token(RoleHarness)
		_, honest := d.token(RoleHarness)
		d.put(BucketRegistrations, "lab", registration{ID: "r", Key: d.key, Token: owner, Made: time.Now(), Node: "other"})
		d.lives()
		connect := func(token string) (resp registry.ConnectResponse, status int, code string) {
			status, code = d.ask(registry.OpConnect, "lab", token, registry.ConnectRequest{HarnessPublicKey: d.key}, &resp)
			return resp, status, code
		}
		var last registry.ConnectResponse
		for i := range MaxAuthorizations {
			resp, status, code := connect(flood)
			if status != http.StatusOK {
				t.Fatalf("connect %d: %d %s", i, status, code)
			}
			last = resp
		}
		if _, status, code := connect(flood); status != http.StatusTooManyRequests || code != codeUnused {
			t.Errorf("one too many: %d %s", status, code)
		}
		if got := d.count(BucketAuthorizations); got != MaxAuthorizations {
			t.Errorf("the state has %d authorizations", got)
		}
		if _, status, code := connect(honest); status != http.StatusOK {
			t.Errorf("another token: %d %s", status, code)
		}

		// One that is used makes room.
		var validated registry.ValidateResponse
		if status, code := d.ask(registry.OpValidate, "lab", executor, registry.ValidateRequest{
			ExecutorRegistrationID: "r", HarnessPublicKey: d.key, HarnessKeyAuthorization: last.HarnessKeyAuthorization,
		}, &validated); status != http.StatusOK || !validated.Valid {
			t.Fatalf("validate: %d %s, valid %v", status, code, validated.Valid)
		}
		if _, status, code := connect(flood); status != http.StatusOK {
			t.Errorf("after one was used: %d %s", status, code)
		}
		if _, status, _ := connect(flood); status != http.StatusTooManyRequests {
			t.Errorf("one too many after one was used: %d", status)
		}

		// So does the time, and a node that has begun anew counts what is there.
		begun, err := New(Config{State: d.node.state, PublicURL: "https://relay.example"})
		if err != nil {
			t.Fatal(err)
		}
		d.node = begun
		d.sweep()
		d.lives()
		if _, status, _ := connect(flood); status != http.StatusTooManyRequests {
			t.Errorf("one too many at a node that has begun anew: %d", status)
		}
		time.Sleep(AuthorizationLife + time.Second)
		d.sweep()
		d.lives()
		if got := d.count(BucketAuthorizations); got != 0 {
			t.Errorf("%d authorizations have not expired", got)
		}
		if _, status, code := connect(flood); status != http.StatusOK {
			t.Errorf("when they have expired: %d %s", status, code)
		}
	})
}

// fullState takes no authorizations.
type fullState struct{ State }

func (s fullState) Put(ctx context.Context, bucket Bucket, key string, value []byte, revision uint64) (uint64, error) {
	if bucket == BucketAuthorizations {
		return 0, errors.New("the disk is full")
	}
	return s.State.Put(ctx, bucket, key, value, revision)
}

// An authorization that could not be kept is none of those that were not used.
func TestUnkeptAuthorizationsAreNotCounted(t *testing.T) {
	d := newDesk(t)
	d.node.state = fullState{d.node.state}
	owner, _ := d.token(RoleExecutor)
	id, token := d.token(RoleHarness)
	d.put(BucketRegistrations, "lab", registration{ID: "r", Key: d.key, Token: owner, Made: time.Now(), Node: "other"})
	d.lives()
	status, code := d.ask(registry.OpConnect, "lab", token, registry.ConnectRequest{HarnessPublicKey: d.key}, nil)
	if n := d.node.unused.now()[id] + d.node.unused.now()[tenancy{id, "lab"}.String()]; status != http.StatusServiceUnavailable || n != 0 {
		t.Errorf("answered %d %s, and %d are counted", status, code, n)
	}
}

// A token for all environments does not fill the State with registrations: those that
// are away for longest make room, those that are attached do not.
func TestRegistrationsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		id, text := d.token(RoleExecutor)
		_, other := d.token(RoleExecutor)
		began := time.Now().Add(-time.Hour)
		name := func(i int) string { return fmt.Sprintf("e%d", i) }
		for i := range MaxRegistrations {
			r := registration{ID: "r", Token: id, Made: began, Left: began.Add(time.Duration(i) * time.Millisecond)}
			if i == 0 {
				r.Node, r.Left = "other", time.Time{}
			}
			d.put(BucketRegistrations, name(i), r)
		}
		d.lives()
		d.sweep()
		register := func(env, token string) (int, string) {
			t.Helper()
			var resp registry.RegisterResponse
			return d.ask(registry.OpRegister, env, token, registry.RegisterRequest{SecurityProfile: registry.SecurityProfile, ExecutorPublicKey: d.key}, &resp)
		}
		there := func(env string) bool {
			t.Helper()
			_, err := d.node.registration(t.Context(), env)
			if err != nil && !errors.Is(err, ErrNotFound) {
				t.Fatal(err)
			}
			return err == nil
		}
		// One that is there already, and another token's, need no room.
		for env, token := range map[string]string{name(1): text, "others": other} {
			if status, code := register(env, token); status != http.StatusOK {
				t.Errorf("%s: %d %s", env, status, code)
			}
		}
		if got := d.count(BucketRegistrations); got != MaxRegistrations+1 {
			t.Fatalf("%d registrations", got)
		}
		if status, code := register("new", text); status != http.StatusOK {
			t.Errorf("one more: %d %s", status, code)
		}
		const part = MaxRegistrations / 100
		if got, want := d.count(BucketRegistrations), MaxRegistrations-part+2; got != want {
			t.Errorf("%d registrations, want %d", got, want)
		}
		// The first is attached, the second has just registered.
		for env, want := range map[string]bool{
			name(0): true, name(1): true, name(2): false, name(part + 1): false, name(part + 2): true, "others": true, "new": true,
		} {
			if there(env) != want {
				t.Errorf("%s is there: %v", env, !want)
			}
		}

		// If all are attached there is no room.
		for i := range MaxRegistrations {
			d.put(BucketRegistrations, name(i), registration{ID: "r", Token: id, Made: began, Node: "other"})
		}
		d.lives()
		d.sweep()
		if status, code := register("newer", text); status != http.StatusTooManyRequests || code != registry.CodeQuota {
			t.Errorf("one more than are attached: %d %s", status, code)
		}
		if there("newer") {
			t.Error("it is there")
		}
		if status, code := register("others2", other); status != http.StatusOK {
			t.Errorf("another token: %d %s", status, code)
		}
	})
}

// Executors that do not come back are forgotten, those that are attached are not.
func TestRegistrationsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		now := time.Now()
		d.put(BucketRegistrations, "never", registration{ID: "r", Key: d.key, Made: now})
		d.put(BucketRegistrations, "left", registration{ID: "r", Key: d.key, Made: now, Left: now.Add(time.Hour)})
		d.put(BucketRegistrations, "lost", registration{ID: "r", Key: d.key, Made: now, Node: "dead", Attached: now})
		d.put(BucketRegistrations, "held", registration{ID: "r", Key: d.key, Made: now, Node: "other", Attached: now})
		time.Sleep(RegistrationLife - time.Second)
		sweep := func(left int) {
			t.Helper()
			d.lives()
			d.sweep()
			if got := d.count(BucketRegistrations); got != left {
				t.Errorf("%v after they were made there are %d registrations, want %d", time.Since(now), got, left)
			}
		}
		sweep(4)
		time.Sleep(time.Second)
		sweep(3)
		time.Sleep(time.Hour)
		sweep(2)
		time.Sleep(RegistrationLife - time.Hour) // after it was seen that the node is lost
		sweep(1)
		if _, err := d.node.registration(t.Context(), "held"); err != nil {
			t.Errorf("the one that is attached: %v", err)
		}
	})
}

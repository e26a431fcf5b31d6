package rendezvous

import (
	"context"
	"testing"
)

// A slowState makes something happen between the reading of a list and its arrival.
type slowState struct {
	State
	meanwhile func()
}

func (s *slowState) List(ctx context.Context, bucket Bucket) ([]Entry, error) {
	entries, err := s.State.List(ctx, bucket)
	s.meanwhile()
	return entries, err
}

// A fakeSocket is one of which it is only known whether it was closed.
type fakeSocket struct {
	id   string
	shot bool
}

func (f *fakeSocket) token() string    { return f.id }
func (f *fakeSocket) shut(int, string) { f.shot = true }

// A token that is made, and used, while the list of tokens is on its way is none that
// was revoked.
func TestNewTokenIsNotRevoked(t *testing.T) {
	state := &slowState{State: NewMemory()}
	n, err := New(Config{State: state, PublicURL: "http://localhost"})
	if err != nil {
		t.Fatal(err)
	}
	old := &fakeSocket{id: "revoked"}
	n.sockets[old] = struct{}{}
	var fresh *fakeSocket
	state.meanwhile = func() {
		token, _, err := Tokens{state.State}.Create(t.Context(), Token{Role: RoleHarness, Environment: "lab"})
		if err != nil {
			t.Fatal(err)
		}
		fresh = &fakeSocket{id: token.ID}
		n.sockets[fresh] = struct{}{}
	}
	if err := n.dropRevoked(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !old.shot || fresh.shot {
		t.Errorf("revoked: closed %v, new: closed %v", old.shot, fresh.shot)
	}
}

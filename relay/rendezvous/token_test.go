package rendezvous

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestTokens(t *testing.T) {
	s := Tokens{NewMemory()}
	made, secret, err := s.Create(t.Context(), Token{Role: RoleHarness, Environment: "lab", Note: "mine", Quota: Quota{Streams: 3}})
	if err != nil {
		t.Fatal(err)
	}
	found, err := s.find(t.Context(), secret)
	if err != nil || found != made {
		t.Errorf("found %+v, %v; want %+v", found, err, made)
	}
	entry, err := s.State.Get(t.Context(), BucketTokens, made.ID)
	if err != nil {
		t.Fatal(err)
	}
	if part := strings.TrimPrefix(secret, tokenPrefix+"-"+made.ID+"-"); strings.Contains(string(entry.Value), part) {
		t.Error("the state holds the secret")
	}
	for _, wrong := range []string{"", "wsd", "wsd-", secret[:len(secret)-1], secret + "x", strings.ToUpper(secret), "wsd-" + made.ID + "-x", "wsd-000000000000-x", "wsd-../x-y"} {
		if _, err := s.find(t.Context(), wrong); !errors.Is(err, errCredential) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	all, err := s.List(t.Context())
	if err != nil || len(all) != 1 || all[0] != made {
		t.Errorf("List = %+v, %v", all, err)
	}
	if err := s.Revoke(t.Context(), made.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := s.find(t.Context(), secret); !errors.Is(err, errCredential) {
		t.Errorf("a revoked token: %v", err)
	}
	if err := s.Revoke(t.Context(), made.ID); !errors.Is(err, ErrNotFound) {
		t.Errorf("revoked twice: %v", err)
	}
}

func TestTokenRefused(t *testing.T) {
	s := Tokens{NewMemory()}
	for name, spec := range map[string]Token{
		"role":        {Role: "operator", Environment: "lab"},
		"environment": {Role: RoleHarness, Environment: "a/b"},
		"none":        {Role: RoleHarness},
		"past":        {Role: RoleHarness, Environment: "lab", Expires: time.Now().Add(-time.Second)},
		"note":        {Role: RoleHarness, Environment: "lab", Note: strings.Repeat("x", MaxNote+1)},
		"streams":     {Role: RoleHarness, Environment: "lab", Quota: Quota{Streams: -1}},
		"bytes":       {Role: RoleHarness, Environment: "lab", Quota: Quota{BytesPerSecond: 1000}},
	} {
		if _, _, err := s.Create(t.Context(), spec); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

func TestTokenAdmits(t *testing.T) {
	for _, c := range []struct {
		token Token
		role  Role
		env   string
		want  bool
	}{
		{Token{Role: RoleHarness, Environment: "lab"}, RoleHarness, "lab", true},
		{Token{Role: RoleHarness, Environment: "lab"}, RoleExecutor, "lab", false},
		{Token{Role: RoleHarness, Environment: "lab"}, RoleHarness, "other", false},
		{Token{Role: RoleExecutor, Environment: AnyEnvironment}, RoleExecutor, "any", true},
	} {
		if got := c.token.admits(c.role, c.env); got != c.want {
			t.Errorf("%+v admits %s %s: %v", c.token, c.role, c.env, got)
		}
	}
}

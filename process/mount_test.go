package process

import "testing"

func TestMountPlaces(t *testing.T) {
	seen := new(Namespace)
	for _, tt := range []struct {
		name  string
		mount *Mount
		dir   string
		want  string
		view  *Namespace
	}{
		{"no mount", nil, "/workspace/a", "/workspace/a", nil},
		{"the point", &Mount{Point: "/workspace", Dir: "/home/p"}, "/workspace", "/home/p", nil},
		{"below it", &Mount{Point: "/workspace", Dir: "/home/p"}, "/workspace/a/b", "/home/p/a/b", nil},
		{"beside it", &Mount{Point: "/workspace", Dir: "/home/p"}, "/workspaces", "/workspaces", nil},
		{"above it", &Mount{Point: "/mnt/space", Dir: "/home/p"}, "/mnt", "/mnt", nil},
		{"out of it again", &Mount{Point: "/workspace", Dir: "/home/p"}, "/workspace/../etc", "/workspace/../etc", nil},
		{"in it by a detour", &Mount{Point: "/workspace", Dir: "/home/p"}, "/etc/../workspace//a/", "/home/p/a", nil},
		{"with a view", &Mount{Point: "/workspace", Dir: "/home/p", Namespace: seen}, "/workspace/a", "/workspace/a", seen},
		{"with a view, elsewhere", &Mount{Point: "/workspace", Dir: "/home/p", Namespace: seen}, "/etc", "/etc", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, view := tt.mount.Place(tt.dir); got != tt.want || view != tt.view {
				t.Errorf("Place(%q) = %q, %p, want %q, %p", tt.dir, got, view, tt.want, tt.view)
			}
		})
	}
}

// The host reaches what clients name by the directory itself, whatever commands see.
func TestMountHost(t *testing.T) {
	m := &Mount{Point: "/workspace", Dir: "/home/p", Namespace: new(Namespace)}
	for name, want := range map[string]string{"/workspace/a": "/home/p/a", "/workspace": "/home/p", "/etc": "/etc"} {
		if got := m.Host(name); got != want {
			t.Errorf("Host(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestMountEnter(t *testing.T) {
	seen := new(Namespace)
	for _, tt := range []struct {
		name  string
		mount *Mount
		dir   string
		want  string
		view  *Namespace
	}{
		{"no mount", nil, "/home/p", "/home/p", nil},
		{"no view", &Mount{Point: "/workspace", Dir: "/home/p"}, "/home/p/a", "/home/p/a", nil},
		{"inside", &Mount{Point: "/workspace", Dir: "/home/p", Namespace: seen}, "/home/p/a", "/workspace/a", seen},
		{"the directory", &Mount{Point: "/workspace", Dir: "/home/p", Namespace: seen}, "/home/p/", "/workspace", seen},
		{"outside", &Mount{Point: "/workspace", Dir: "/home/p", Namespace: seen}, "/home/pp", "/home/pp", seen},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cmd := Command{Dir: tt.dir}
			tt.mount.Enter(&cmd)
			if cmd.Dir != tt.want || cmd.Namespace != tt.view {
				t.Errorf("got %q, %p, want %q, %p", cmd.Dir, cmd.Namespace, tt.want, tt.view)
			}
		})
	}
}

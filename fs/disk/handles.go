package disk

import "strings"

// A walker opens directories below the root. It keeps the last one with those above it
// open, since what is done in the order of the paths needs most of them again. It is for
// one goroutine.
type walker struct {
	root  int // not the walker's own
	path  string
	names []string
	fds   []int
}

func newWalker(root int) *walker { return &walker{root: root} }

// open returns the descriptor of a directory, good until the next call.
func (w *walker) open(path string) (int, error) {
	if path == w.path {
		return w.fd(), nil
	}
	var want []string
	if path != "" {
		want = strings.Split(path, "/")
	}
	keep := 0
	for keep < len(want) && keep < len(w.names) && want[keep] == w.names[keep] {
		keep++
	}
	w.cut(keep)
	for _, name := range want[keep:] {
		fd, err := openDirAt(w.fd(), name)
		if err != nil {
			w.path = strings.Join(w.names, "/")
			return -1, err
		}
		w.names, w.fds = append(w.names, name), append(w.fds, fd)
	}
	w.path = path
	return w.fd(), nil
}

// closed returns, for a path that could not be opened, the last directory on the way that could be, and the name in it
// that could not.
func (w *walker) closed(path string) (fd int, name string) {
	name, _, _ = strings.Cut(strings.TrimPrefix(strings.TrimPrefix(path, w.path), "/"), "/")
	return w.fd(), name
}

func (w *walker) fd() int {
	if len(w.fds) == 0 {
		return w.root
	}
	return w.fds[len(w.fds)-1]
}

func (w *walker) cut(n int) {
	for _, fd := range w.fds[n:] {
		closeFD(fd)
	}
	w.names, w.fds = w.names[:n], w.fds[:n]
}

// forget closes all: what was opened may have another place by now.
func (w *walker) forget() {
	w.cut(0)
	w.path = ""
}

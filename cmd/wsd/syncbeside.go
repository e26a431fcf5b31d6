package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/client/mirror"
	"github.com/wsd-dev/wsd/fs/lost"
	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/server/sqlite"
)

// Commands about a state that a 'wsd sync --watch' has open have the watch do their work, between two of its looks.

// A syncAsk is a doorRequest that waits for the end of a look.
type syncAsk struct {
	*doorRequest
	ctx  context.Context // done when the command has gone
	done chan *doorAnswer
}

// answer serves a request. It is safe for concurrent use.
func (j *syncJob) answer(ctx context.Context, q *doorRequest) *doorAnswer {
	a := &doorAnswer{}
	var err error
	switch q.Do {
	case doorCollect: // safe beside all else, as reading is
		a.Collected, err = j.local.collect(ctx, q.Now)
	case doorLost:
		err = j.local.list(ctx, q, a)
	case doorRestore, doorConflicts, doorResolve:
		ask := &syncAsk{q, ctx, make(chan *doorAnswer, 1)}
		late := time.NewTimer(lookTimeout)
		defer late.Stop()
		select {
		case j.asks <- ask:
			return <-ask.done
		case <-late.C:
			a.Busy = true
		case <-ctx.Done():
			a.Busy = true
		}
	default:
		err = fmt.Errorf("the 'wsd sync --watch' that has the state open is of another version, and knows no %q: end it first", q.Do)
	}
	a.fail(err)
	return a
}

// maxDoorPage bounds the versions of one answer, roughly in bytes.
const maxDoorPage = 1 << 20

// errPageFull ends a list of versions.
var errPageFull = errors.New("the page is full")

// A doorVersion is a keptVersion, whose parts are sent apart from the entry, and only when they are asked for.
type doorVersion struct {
	lost.Version
	Dir   []byte
	Name  string
	Parts []byte `json:",omitempty"` // the hash of each, and its size in 8 bytes, big-endian
}

func newDoorVersion(v *keptVersion, parts bool) doorVersion {
	d := doorVersion{Version: *v.Version, Dir: []byte(v.dir), Name: v.name}
	if parts {
		for _, p := range v.Entry.Parts {
			d.Parts = binary.BigEndian.AppendUint64(append(d.Parts, p.Hash[:]...), uint64(p.Size))
		}
	}
	d.Entry.Parts = nil
	return d
}

// size is roughly the number of bytes that an answer has of a version.
func (d *doorVersion) size() int {
	const others = 512
	return others + len(d.Path) + len(d.Entry.Path) + len(d.Entry.Target) + len(d.Name) + 4*(len(d.Dir)+len(d.Parts))/3
}

// kept is the version of a store.
func (d *doorVersion) kept(store string) *keptVersion {
	v := d.Version
	for b := d.Parts; len(b) > 0; {
		var p tree.Part
		n := copy(p.Hash[:], b)
		if len(b) < n+8 {
			break
		}
		p.Size = int64(binary.BigEndian.Uint64(b[n:]))
		v.Entry.Parts, b = append(v.Entry.Parts, p), b[n+8:]
	}
	return &keptVersion{Version: &v, store: store, dir: string(d.Dir), name: d.Name}
}

// list answers with the lost versions that a request is about, as many as a page has.
func (l *syncLocal) list(ctx context.Context, q *doorRequest, a *doorAnswer) error {
	s, size := l.kept(), 0
	err := s.versions(ctx, q.After, func(v *keptVersion) error {
		if !v.isBelow(string(q.Path)) {
			return nil
		}
		if size > maxDoorPage {
			return errPageFull
		}
		d := newDoorVersion(v, q.Parts)
		size += d.size()
		a.Versions = append(a.Versions, d)
		return nil
	})
	if errors.Is(err, errPageFull) {
		a.More, err = true, nil
	}
	return err
}

// kept is the state for the commands about lost versions.
func (l *syncLocal) kept() *keptState {
	return &keptState{store: l.db.Path(), forest: l.forest, tree: l.disk.Tree(), dirs: map[string][2]string{}}
}

// pause waits, and serves requests that need no server meanwhile. It reports whether ctx goes on.
func (j *syncJob) pause(ctx context.Context, d time.Duration) bool {
	for over := time.After(d); ; {
		select {
		case <-over:
			return true
		case <-ctx.Done():
			return false
		case ask := <-j.asks:
			j.serve(ctx, nil, ask)
		}
	}
}

// serve serves a request between two looks. remote is nil while there is no connection.
func (j *syncJob) serve(ctx context.Context, remote *syncRemote, ask *syncAsk) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ask.ctx, cancel)()
	if ask.ctx.Err() != nil { // the command has gone while it waited
		ask.done <- &doorAnswer{Busy: true}
		return
	}
	var stdout, stderr bytes.Buffer
	a := &doorAnswer{}
	err := j.checkLocal(ctx)
	if err == nil {
		err = j.serveChecked(ctx, remote, ask.doorRequest, &app{stdout: &stdout, stderr: &stderr})
	}
	a.Stdout, a.Stderr = stdout.Bytes(), stderr.Bytes()
	a.fail(err)
	ask.done <- a
}

func (j *syncJob) serveChecked(ctx context.Context, remote *syncRemote, q *doorRequest, to *app) error {
	if q.Do == doorRestore {
		return j.serveRestore(ctx, q, to)
	}
	if err := j.local.isAbout(ctx, q.About); err != nil {
		return err
	}
	for _, flag := range q.Flags {
		if !slices.Contains(j.flags.rulesOf, flag) {
			return withHint(fmt.Errorf("the 'wsd sync --watch' that has the state open was not given %s", flag), "leave it out, or end the watch first")
		}
	}
	if remote == nil {
		return withHint(errors.New("the 'wsd sync --watch' that has the state open has no connection to the server"), "try again once it has one, or end it first")
	}
	b := &syncJob{
		app: to, flags: j.flags, asJSON: q.JSON, quiet: q.Do == doorConflicts, resolves: q.Do == doorResolve,
		target: j.target, met: true, removals: j.removals, retries: j.retries, asks: j.asks,
	}
	b.flags.policy = mirror.Hold
	b.out = newSyncOutput(b) // local is not set yet: the watch reports what is forgotten
	b.local = j.local
	cfg, own := b.config(remote), j.config(remote)
	cfg.Progress = own.Progress
	cfg.OnChange, cfg.OnSent = both(cfg.OnChange, own.OnChange), both(cfg.OnSent, own.OnSent)
	cfg.Conflict, cfg.Withheld, cfg.Stayed = both(cfg.Conflict, own.Conflict), both(cfg.Withheld, own.Withheld), both(cfg.Stayed, own.Stayed)
	m := mirror.New(cfg)
	if q.Do == doorConflicts {
		return b.explain(ctx, b.listConflicts(ctx, m))
	}
	policy, err := mirror.ParsePolicy(q.Policy)
	if err != nil {
		return err
	}
	return b.explain(ctx, b.resolve(ctx, m, string(q.Path), policy))
}

// isAbout refuses a command about other sides than the state is of.
func (l *syncLocal) isAbout(ctx context.Context, is *syncAbout) error {
	var was syncAbout
	text, err := mirror.About(ctx, l.disk.Tree(), "")
	if err == nil {
		err = json.Unmarshal([]byte(text), &was)
	}
	if err != nil || is == nil {
		return errors.Join(err, errors.New("it is not known which two sides the state is of"))
	}
	return was.other(is, l.db.Path(), was.named())
}

// named says how a command line names the two sides.
func (a *syncAbout) named() string {
	text := "name the directory " + quoted(a.Dir) + " and the server " + quoted(cmp.Or(a.URL, a.Server))
	if a.Part == "" {
		return text + ", without --remote-path"
	}
	return text + ", with --remote-path " + quoted(a.Mount)
}

// both calls two functions, of which either may be nil.
func both[T any](f, g func(T)) func(T) {
	switch {
	case f == nil:
		return g
	case g == nil:
		return f
	}
	return func(v T) {
		f(v)
		g(v)
	}
}

// serveRestore brings a version back, as 'wsd sync restore' does.
func (j *syncJob) serveRestore(ctx context.Context, q *doorRequest, to *app) error {
	s := j.local.kept()
	found, err := s.get(ctx, q.Version, q.Of)
	if err != nil {
		return err
	}
	r := &syncRestore{app: to, to: string(q.To)}
	if r.to != "" {
		return r.export(ctx, s.forest, found)
	}
	if err := mayBring(found); err != nil {
		return err
	}
	return r.bring(ctx, j.local.disk, found)
}

// askWatch sends a request to the watch that has a state open, and prints the output that it returns. err is
// an error of opening the state. askWatch returns it if it is another one than sqlite.ErrInUse, or if no watch
// has the state open.
func (a *app) askWatch(ctx context.Context, err error, q *doorRequest) (*doorAnswer, error) {
	inUse, ok := errors.AsType[*sqlite.InUseError](err)
	if !ok {
		return nil, err
	}
	answer, asked := askDoor(ctx, inUse.Path, q)
	if asked != nil {
		return nil, explainAsked(asked, err, inUse)
	}
	_, outErr := a.stdout.Write(answer.Stdout)
	_, errErr := a.stderr.Write(answer.Stderr)
	return answer, errors.Join(answer.err(), outErr, errErr)
}

// explainAsked says what to do about a watch that has not served a request. err is the error of opening the state.
func explainAsked(asked, err error, inUse *sqlite.InUseError) error {
	switch {
	case errors.Is(asked, errNoWatch) && hasEnded(inUse.PID):
		return withHint(fmt.Errorf("the process that had %s open%s has just ended; nothing was done", inUse.Path, pidText(inUse)), "run it again")
	case errors.Is(asked, errNoWatch):
		return err
	case errors.Is(asked, errNoAnswer):
		return withHint(fmt.Errorf("the 'wsd sync --watch' of this directory%s does not answer; nothing was done", pidText(inUse)),
			"if it was stopped, 'kill -CONT "+pid(inUse)+"' has it go on; else end it: 'kill "+pid(inUse)+"'")
	case errors.Is(asked, errBusy):
		return withHint(fmt.Errorf("the 'wsd sync --watch' of this directory%s is busy: for %v it has looked at both sides, or connected; nothing was done", pidText(inUse), lookTimeout),
			"try again once it is done with that, or end it first: 'kill "+pid(inUse)+"'")
	}
	return asked
}

// hasEnded reports whether a process, if it is known, is no more.
func hasEnded(pid int) bool { return pid > 0 && errors.Is(unix.Kill(pid, 0), unix.ESRCH) }

// pid is the process for a command line.
func pid(inUse *sqlite.InUseError) string {
	if inUse.PID == 0 {
		return "PID"
	}
	return strconv.Itoa(inUse.PID)
}

// pidText is " (pid N)", or "" when the process is not known.
func pidText(inUse *sqlite.InUseError) string {
	if inUse.PID == 0 {
		return ""
	}
	return fmt.Sprintf(" (pid %d)", inUse.PID)
}

// A watchedError says that a watch has a state open.
type watchedError struct{ *sqlite.InUseError }

// Error implements error.
func (e *watchedError) Error() string {
	return fmt.Sprintf("%s is in use by the 'wsd sync --watch' of this directory%s", e.Path, pidText(e.InUseError))
}

// Unwrap returns the error that the state was opened with.
func (e *watchedError) Unwrap() error { return e.InUseError }

// explainInUse says what to do about a state that another process has open: hint, unless that is a watch.
func explainInUse(ctx context.Context, err error, hint string) error {
	inUse, ok := errors.AsType[*sqlite.InUseError](err)
	if !ok {
		return err
	}
	conn, dialed := dialDoor(ctx, inUse.Path)
	if dialed != nil {
		return withHint(err, hint)
	}
	_ = conn.Close()
	return withHint(&watchedError{inUse}, "the watch brings changes over by itself; to run this command, end it first: 'kill "+pid(inUse)+"'")
}

// keptIn lists the lost versions of a path in a state, and of all below it, the oldest first. The path "" stands for
// all versions. A watch that has the state open sends the parts of their content if parts is set.
func keptIn(ctx context.Context, a *app, file, path string, parts bool) (list []*keptVersion, err error) {
	err = withKept(ctx, file, func(s *keptState) error {
		return s.versions(ctx, 0, func(v *keptVersion) error {
			if v.isBelow(path) {
				list = append(list, v)
			}
			return nil
		})
	})
	if err == nil {
		return list, nil
	}
	opened := err
	store, err := filepath.Abs(file)
	if err != nil {
		return nil, errors.Join(opened, err)
	}
	q := doorRequest{Do: doorLost, Path: []byte(path), Parts: parts}
	for list = nil; ; {
		answer, err := a.askWatch(ctx, opened, &q)
		if err != nil {
			return nil, err
		}
		for i := range answer.Versions {
			v := answer.Versions[i].kept(store)
			list, q.After = append(list, v), v.ID
		}
		if !answer.More {
			return list, nil
		}
	}
}

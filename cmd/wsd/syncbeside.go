package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/wsd-dev/wsd/client/mirror"
	"github.com/wsd-dev/wsd/fs/lost"
	"github.com/wsd-dev/wsd/server/sqlite"
)

// Commands about a state that a 'wsd sync --watch' has open have the watch do their work, between two of its looks.

// A syncAsk is a doorRequest that waits for the watch.
type syncAsk struct {
	*doorRequest
	ctx  context.Context // done when who asks has gone
	done chan *doorAnswer
}

// answer answers what is asked of a watch.
func (j *syncJob) answer(ctx context.Context, q *doorRequest) *doorAnswer {
	a := &doorAnswer{}
	var err error
	switch q.Do {
	case doorCollect: // safe beside all else, as reading is
		a.Collected, err = j.local.collect(ctx, q.Now)
	case doorLost:
		a.Versions, err = j.local.versions(ctx)
	case doorRestore, doorConflicts, doorResolve:
		ask := &syncAsk{q, ctx, make(chan *doorAnswer, 1)}
		late := time.NewTimer(doorPatience)
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

// versions lists the lost versions.
func (l *syncLocal) versions(ctx context.Context) ([]doorVersion, error) {
	var list []doorVersion
	s := l.kept()
	err := s.versions(ctx, func(v *keptVersion) error {
		list = append(list, doorVersion{*v.Version, []byte(v.dir), v.name})
		return nil
	})
	return list, err
}

// kept is the state for the commands about lost versions.
func (l *syncLocal) kept() *keptState {
	return &keptState{store: l.db.Path(), forest: l.forest, tree: l.disk.Tree(), dirs: map[string][2]string{}}
}

// pause waits, and answers meanwhile what needs no server. It reports whether ctx goes on.
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

// serve does what is asked between two looks. remote is nil while there is no connection.
func (j *syncJob) serve(ctx context.Context, remote *syncRemote, ask *syncAsk) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ask.ctx, cancel)()
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
	b.out = newSyncOutput(b) // without local: the watch says what is forgotten
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
	return was.other(is, l.db.Path(), "name the server and the directory that it is of")
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
	v, err := lost.Get(ctx, s.forest, q.Version)
	if err != nil {
		return fmt.Errorf("read version %d: %w", q.Version, err)
	}
	if v.Path != q.Of {
		return fmt.Errorf("version %d is of another path", q.Version)
	}
	found, err := s.version(ctx, v)
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

// askWatch has the watch that has a state open do what a command is about, and prints what that would have
// printed. err is that the state is in use: it is returned where there is no watch, or none that answers.
func (a *app) askWatch(ctx context.Context, err error, q *doorRequest) (*doorAnswer, error) {
	inUse, ok := errors.AsType[*sqlite.InUseError](err)
	if !ok {
		return nil, err
	}
	answer, asked := askDoor(ctx, inUse.Path, q)
	if errors.Is(asked, errNoAnswer) {
		return nil, err
	}
	if asked != nil {
		return nil, asked
	}
	_, outErr := a.stdout.Write(answer.Stdout)
	_, errErr := a.stderr.Write(answer.Stderr)
	return answer, errors.Join(answer.err(), outErr, errErr)
}

// keptIn lists the lost versions in a state, the oldest first.
func keptIn(ctx context.Context, a *app, file string) (list []*keptVersion, err error) {
	err = withKept(ctx, file, func(s *keptState) error {
		return s.versions(ctx, func(v *keptVersion) error {
			list = append(list, v)
			return nil
		})
	})
	if !errors.Is(err, sqlite.ErrInUse) {
		return list, err
	}
	answer, err := a.askWatch(ctx, err, &doorRequest{Do: doorLost})
	if err != nil {
		return nil, err
	}
	store, err := filepath.Abs(file)
	for i := range answer.Versions {
		v := &answer.Versions[i]
		list = append(list, &keptVersion{&v.Version, store, string(v.Dir), v.Name})
	}
	return list, err
}

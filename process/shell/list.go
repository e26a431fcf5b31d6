package shell

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/wsd-dev/wsd/process/eventlog"
	"github.com/wsd-dev/wsd/protocol"
)

// ListedRuns are Runs that can be listed, as those of a Cloudflare computer cannot.
type ListedRuns interface {
	Runs
	// Follow follows a run from a point on, beside others and for as long as the run is
	// kept. Events that are not kept any more are left out: the first to come has a greater
	// number. Any number may follow. One of them holds the command up when it does not read,
	// unless another one reads; all others lose what is not kept when they come to it. The
	// error is ENOENT.
	Follow(ctx context.Context, id string, after After) (Events, error)
	// List returns the runs that are live and, with ended, those that have ended and are
	// kept, the oldest first. more says that there are older ones that have ended.
	List(ctx context.Context, ended bool) (runs []Info, more bool, err error)
}

// Info is a run as it is listed.
type Info struct {
	Log     int64 // number of its log
	ID      string
	About   About
	Started time.Time
	PID     int // of the command while it is live; 0 without one
	Ended   bool
	Code    int // once it has ended
}

// About is what people are told of a run.
type About struct {
	Command, Cwd string // as they were asked for; cut if they are long
}

// List implements ListedRuns.
func (s *Shell) List(ctx context.Context, ended bool) (runs []Info, more bool, err error) {
	live := s.listLive()
	var records []eventlog.Record
	if ended {
		records, err = s.store().List(ctx, eventlog.Query{Origin: eventlog.OriginRun, Ended: true, Since: s.cfg.Recorder.Oldest(), Limit: maxListed + 1})
		if err != nil {
			return nil, false, fmt.Errorf("list execs: %w", err)
		}
		more = len(records) > maxListed
		records = records[:min(len(records), maxListed)]
	}
	for _, rec := range records {
		delete(live, rec.Log) // it has ended meanwhile
		info := Info{Log: rec.Log, ID: rec.ID, About: About{Command: rec.Argv[len(rec.Argv)-1], Cwd: rec.Cwd}, Started: rec.Started, Ended: true, Code: -1}
		if rec.Exit != nil {
			info.Code = rec.Exit.Code
		}
		runs = append(runs, info)
	}
	for _, info := range live {
		runs = append(runs, info)
	}
	slices.SortFunc(runs, func(a, b Info) int { return cmp.Compare(a.Log, b.Log) })
	return runs, more, nil
}

// listLive returns the live runs whose beginning is recorded, by their numbers.
func (s *Shell) listLive() map[int64]Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	live := make(map[int64]Info, len(s.live))
	for _, r := range s.live {
		select {
		case <-r.begun:
		default:
			continue
		}
		if r.beginErr != nil {
			continue
		}
		info := Info{Log: r.key, ID: r.id, About: r.about, Started: r.since}
		select {
		case <-r.started:
			if r.command != nil {
				info.PID = r.command.Child.PID
			}
		default:
		}
		live[r.key] = info
	}
	return live
}

// about is what is kept of a request to be listed.
func (r *Request) about() About { return About{Command: cut(r.Command), Cwd: cut(r.Cwd)} }

// cut cuts a long text, and shows where. The text that it returns holds no other in memory.
func cut(text string) string {
	if len(text) <= maxAboutBytes {
		return text
	}
	const mark = "…"
	return strings.ToValidUTF8(text[:maxAboutBytes-len(mark)], "") + mark
}

// list serves shell/list.
func (s *Service) list(ctx context.Context, p *protocol.ListExecsParams) (*protocol.ListExecsResult, error) {
	runs, more, err := s.runs.List(ctx, p.Ended != nil && *p.Ended)
	if err != nil {
		return nil, err
	}
	result := &protocol.ListExecsResult{Runs: make([]protocol.ExecInfo, len(runs)), Truncated: more}
	for i, r := range runs {
		info := protocol.ExecInfo{ID: r.ID, Command: r.About.Command, Cwd: r.About.Cwd, StartedAtMs: r.Started.UnixMilli(), Exited: r.Ended, Number: r.Log}
		if r.PID != 0 {
			info.PID = &r.PID
		}
		if r.Ended {
			info.ExitCode = &r.Code
		}
		result.Runs[i] = info
	}
	return result, nil
}

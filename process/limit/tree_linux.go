package limit

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A tree is a command's processes as /proc tells: all that its first process has
// started, all in the sessions of those, and all in its IPC namespace if it has one of
// its own. One that has been found stays when its parent ends.
type tree struct {
	limits   Limits
	apart    *os.File          // the IPC namespace that is the command's alone, or nil; open, so that no other gets its number
	space    string            // its name, or empty
	sessions map[int]bool      // those of the members at the last look
	known    map[int]candidate // all processes of the machine that were looked at
	looks    int               // how often was looked
	gone     time.Duration     // CPU time of members that have ended, as last seen
}

// A candidate is a process and whether it is a member.
type candidate struct {
	stat
	member bool
}

// freshLooks is after how many looks all processes are looked at anew: a process id may
// have got another process.
const freshLooks = 16

func (t *tree) attributes(*syscall.SysProcAttr) {}

func (t *tree) began(pid int, apart *os.File) error {
	t.sessions, t.apart = map[int]bool{pid: true}, apart
	if apart == nil {
		return nil
	}
	var info unix.Stat_t
	if err := unix.Fstat(int(apart.Fd()), &info); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	t.space = fmt.Sprintf("ipc:[%d]", info.Ino)
	return nil
}

// spaceOf names the IPC namespace of a process. It is empty for one that is out of
// reach.
func spaceOf(pid int) string {
	space, _ := os.Readlink("/proc/" + strconv.Itoa(pid) + "/ns/ipc")
	return space
}

func (t *tree) cause() string { return "" }

func (t *tree) close() error {
	if t.apart == nil {
		return nil
	}
	return t.apart.Close()
}

func (t *tree) measure() (u usage, empty bool) {
	members, err := t.find()
	if err == nil && len(members) == 0 {
		return usage{}, true
	}
	var live, all time.Duration
	pids := make([]int, 0, len(members))
	for _, m := range members {
		pids = append(pids, m.pid)
		live += m.own
		all += m.own + m.reaped
		u.processes += m.threads
	}
	// One that has ended counts as it was last seen, or as its parent tells.
	u.cpu = max(live+t.gone, all)
	if t.limits.Memory > 0 {
		u.memory = memoryOf(pids, t.limits.Memory)
	}
	return u, false
}

// find returns the members. With an error there may be others.
func (t *tree) find() ([]stat, error) {
	sessions := t.sessions
	members, err := t.look()
	if err == nil && len(members) == 0 { // the last may have started another and ended meanwhile
		t.sessions = sessions
		members, err = t.look()
	}
	return members, err
}

// look looks at the processes of the machine and returns the members. With an error,
// as when this program has no descriptor left, all is as it was at the last look.
func (t *tree) look() ([]stat, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	names, err := dir.Readdirnames(-1)
	_ = dir.Close()
	if err != nil {
		return nil, err
	}
	fresh := t.looks%freshLooks == 0
	t.looks++
	now := make(map[int]candidate, len(names))
	var undecided []stat
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		before, known := t.known[pid]
		if known && !before.member && !fresh {
			now[pid] = before
			continue
		}
		s, err := statOf(pid)
		switch {
		case exhausted(err):
			return nil, err
		case err != nil: // it is gone, or hidden as that of another user (hidepid)
		case known && before.start == s.start:
			now[pid] = candidate{s, before.member}
		case t.sessions[s.session] || t.space != "" && spaceOf(pid) == t.space:
			now[pid] = candidate{s, true}
		default:
			undecided = append(undecided, s)
		}
	}
	for grown := true; grown; {
		grown = false
		for _, s := range undecided {
			if now[s.parent].member && !now[s.pid].member {
				now[s.pid], grown = candidate{s, true}, true
			}
		}
	}
	for _, s := range undecided {
		if _, in := now[s.pid]; !in {
			now[s.pid] = candidate{stat: s}
		}
	}
	for pid, before := range t.known {
		if after, still := now[pid]; before.member && !(still && after.start == before.start) {
			t.gone += before.own
		}
	}
	t.known = now
	var members []stat
	t.sessions = make(map[int]bool)
	for _, c := range now {
		if c.member {
			members = append(members, c.stat)
			if c.session > 0 { // 0 is one of another process namespace
				t.sessions[c.session] = true
			}
		}
	}
	return members, nil
}

// maxStops bounds how often kill looks for what was started meanwhile.
const maxStops = 20

// kill stops the members first, so that none starts another while it is not looked.
func (t *tree) kill() {
	for range maxStops {
		before := t.known
		t.signal(unix.SIGSTOP)
		members, _ := t.find()
		grown := false
		for _, m := range members {
			grown = grown || before[m.pid].start != m.start
		}
		if !grown {
			break
		}
	}
	t.signal(unix.SIGKILL)
}

// signal sends sig to the members of the last look: to whole process groups, which
// gets many at once, and to each. A session has members only, or none, and so has each
// of its groups.
func (t *tree) signal(sig syscall.Signal) {
	groups := map[int]bool{
		0:              true, // one of another process namespace
		unix.Getpgrp(): true, // this program's, should a member be in it
	}
	for _, c := range t.known {
		if c.member && !groups[c.group] {
			groups[c.group] = true
			_ = unix.Kill(-c.group, sig)
		}
	}
	for pid, c := range t.known {
		if !c.member {
			continue
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		if s, err := statOf(pid); err == nil && s.start == c.start {
			_ = unix.PidfdSendSignal(fd, sig, nil, 0)
		}
		_ = unix.Close(fd)
	}
}

// A stat is what /proc/PID/stat tells.
type stat struct {
	pid, parent, group, session int
	start                       uint64        // when it began, which tells it from a later process of its number
	own                         time.Duration // CPU time
	reaped                      time.Duration // that of children it has waited for
	threads                     uint64
}

// clockTick is the unit of times in /proc/PID/stat, on every machine that Go knows.
const clockTick = 10 * time.Millisecond

// exhausted reports whether err tells that nothing can be read at the moment.
func exhausted(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM)
}

// isGone reports whether err tells that a process, or a cgroup, is not there any more.
func isGone(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENODEV)
}

// statOf returns an error that isGone for a process that has ended, also while nobody
// has waited for it. One whose first thread alone has ended is still there.
func statOf(pid int) (stat, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return stat{}, err
	}
	// The name, in parentheses, may hold anything.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 20 {
		return stat{}, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	number := func(i int) uint64 { // field i of proc(5), which counts from 1
		n, _ := strconv.ParseUint(string(fields[i-3]), 10, 64)
		return n
	}
	if threads, state := number(20), fields[0][0]; (state == 'Z' || state == 'X') && threads <= 1 {
		return stat{}, unix.ESRCH
	}
	return stat{
		pid: pid, parent: int(number(4)), group: int(number(5)), session: int(number(6)), threads: number(20), start: number(22),
		own: time.Duration(number(14)+number(15)) * clockTick, reaped: time.Duration(number(16)+number(17)) * clockTick,
	}, nil
}

package limit

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/protocol"
)

// homePrefix begins the name of a server's cgroup, which homeName makes.
const homePrefix = "wsd."

// homeName is that of the server that process s is: "wsd." PID "." START "." SPACE, with
// its process id, when it began, and the number of its process namespace.
func homeName(s stat) (string, error) {
	space, err := pidSpace()
	return fmt.Sprintf("%s%d.%d.%s", homePrefix, s.pid, s.start, space), err
}

// pidSpace is the number of the process namespace of this program.
func pidSpace() (string, error) {
	space, err := os.Readlink("/proc/self/ns/pid")
	return strings.Trim(space, "pid:[]"), err
}

// A home is the cgroup in which a server makes those of its commands.
type home struct {
	own     string // where this program was started
	dir     string // below own
	moved   bool   // this program is in dir/server
	changed bool   // controllers were enabled in own
	memory  bool   // the kernel enforces limits of memory
	pids    bool   // and of processes
	next    atomic.Uint64
}

// openHome makes a home, or says why there is none.
func openHome() (*home, error) {
	own, err := ownCgroup()
	if err != nil {
		return nil, err
	}
	if err := delegated(own); err != nil {
		return nil, err
	}
	sweep(own)
	self, err := statOf(os.Getpid())
	if err != nil {
		return nil, err
	}
	name, err := homeName(self)
	if err != nil {
		return nil, err
	}
	h := &home{own: own, dir: filepath.Join(own, name)}
	if err := os.Mkdir(h.dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) { // of another Limiter of this program
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(h.dir, "cgroup.kill")); err != nil {
		_ = os.Remove(h.dir)
		return nil, errors.New("cgroups cannot be killed: that takes Linux 5.14")
	}
	h.takeControllers()
	return h, nil
}

// ownCgroup is the directory of the cgroup that this program is in.
func ownCgroup() (string, error) {
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	path, ok := unifiedPath(string(groups))
	if !ok {
		return "", errors.New("this kernel has no cgroups of version 2")
	}
	dir, ok := unifiedDir(string(mounts), path)
	if !ok {
		return "", errors.New("cgroups of version 2 are not mounted")
	}
	if !slices.Contains(pidsIn(dir), os.Getpid()) { // as with a mount from another namespace
		return "", fmt.Errorf("this process is not in %s", dir)
	}
	return dir, nil
}

// unifiedPath is the path in the hierarchy of version 2 that a /proc/PID/cgroup tells.
func unifiedPath(groups string) (string, bool) {
	for line := range strings.Lines(groups) {
		if path, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ok {
			return path, true
		}
	}
	return "", false
}

// unifiedDir is the directory of a path in that hierarchy, as a /proc/PID/mountinfo
// tells.
func unifiedDir(mounts, path string) (string, bool) {
	for line := range strings.Lines(mounts) {
		before, after, ok := strings.Cut(line, " - ")
		fields := strings.Fields(before) // the fourth is what is mounted, the fifth where
		if !ok || !strings.HasPrefix(after, "cgroup2 ") || len(fields) < 5 {
			continue
		}
		if rest, err := filepath.Rel(fields[3], path); err == nil && filepath.IsLocal(rest) {
			return filepath.Join(fields[4], rest), true
		}
	}
	return "", false
}

// delegated returns nil if this program may make cgroups in dir. Root can everywhere,
// but systemd wants that nobody does in cgroups of its own. It marks those that are
// left to others.
func delegated(dir string) error {
	for _, name := range []string{dir, filepath.Join(dir, "cgroup.procs")} {
		if err := unix.Access(name, unix.W_OK); err != nil {
			return fmt.Errorf("%s is not delegated to this user: %w", dir, err)
		}
	}
	if os.Geteuid() != 0 {
		return nil
	}
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		return nil
	}
	mark := make([]byte, 1)
	for _, name := range []string{"user.delegate", "trusted.delegate"} {
		if n, err := unix.Getxattr(dir, name, mark); err == nil && n == 1 && mark[0] == '1' {
			return nil
		}
	}
	return fmt.Errorf("systemd does not delegate %s: start the server in a unit with Delegate=yes", dir)
}

// sweep removes what servers have left in dir that were killed. Nobody can tell that of
// one in another process namespace.
func sweep(dir string) {
	space, err := pidSpace()
	if err != nil {
		return
	}
	homes, _ := filepath.Glob(filepath.Join(dir, homePrefix+"*"))
	for _, at := range homes {
		parts := strings.Split(strings.TrimPrefix(filepath.Base(at), homePrefix), ".")
		if len(parts) != 3 || parts[2] != space {
			continue
		}
		pid, _ := strconv.Atoi(parts[0])
		if s, err := statOf(pid); !isGone(err) && (err != nil || strconv.FormatUint(s.start, 10) == parts[1]) {
			continue
		}
		_ = removeTree(at) // what has processes stays
	}
}

// removeTree removes a cgroup and those below it.
func removeTree(dir string) error {
	for _, below := range childGroups(dir) {
		if err := removeTree(below); err != nil {
			return err
		}
	}
	return os.Remove(dir)
}

func childGroups(dir string) (dirs []string) {
	entries, _ := os.ReadDir(dir) // one that is gone has none
	for _, e := range entries {
		if e.IsDir() {
			dirs = append(dirs, filepath.Join(dir, e.Name()))
		}
	}
	return dirs
}

// takeControllers has the kernel enforce what it can. Controllers are for cgroups that
// are below one without processes: a program that is alone moves out of the way.
func (h *home) takeControllers() {
	var want []string
	has := words(h.own, "cgroup.controllers")
	for _, name := range []string{"memory", "pids"} {
		if slices.Contains(has, name) {
			want = append(want, name)
		}
	}
	if len(want) == 0 {
		return
	}
	if !h.enable(want) {
		h.giveBack(want)
		return
	}
	h.memory, h.pids = slices.Contains(want, "memory"), slices.Contains(want, "pids")
}

func (h *home) enable(names []string) bool {
	enabled := words(h.own, "cgroup.subtree_control")
	if slices.ContainsFunc(names, func(s string) bool { return !slices.Contains(enabled, s) }) {
		_, err := os.Stat(filepath.Join(h.own, "cgroup.events")) // the root of all has none
		if err == nil && !h.moveOut() {
			return false
		}
		if control(h.own, "+", names) != nil {
			return false
		}
		h.changed = true
	}
	return control(h.dir, "+", names) == nil
}

// moveOut moves this program to a cgroup of its own if it is alone in the one it is in.
func (h *home) moveOut() bool {
	if pids := pidsIn(h.own); len(pids) != 1 || pids[0] != os.Getpid() {
		return false
	}
	server := filepath.Join(h.dir, "server")
	if os.Mkdir(server, 0o755) != nil {
		return false
	}
	h.moved = set(server, "cgroup.procs", strconv.Itoa(os.Getpid())) == nil
	return h.moved
}

// giveBack undoes enable.
func (h *home) giveBack(names []string) {
	_ = control(h.dir, "-", names)
	if h.changed {
		_ = control(h.own, "-", names)
	}
	if h.moved {
		_ = set(h.own, "cgroup.procs", strconv.Itoa(os.Getpid()))
	}
	_ = os.Remove(filepath.Join(h.dir, "server"))
	h.changed, h.moved = false, false
}

// close leaves the cgroups as they were found. Those stay that processes are in.
func (h *home) close() error {
	for _, dir := range childGroups(h.dir) {
		if filepath.Base(dir) != "server" {
			_ = removeTree(dir)
		}
	}
	h.giveBack(h.controllers())
	if err := os.Remove(h.dir); err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.EBUSY) {
		return err
	}
	return nil
}

func (h *home) controllers() (names []string) {
	if h.memory {
		names = append(names, "memory")
	}
	if h.pids {
		names = append(names, "pids")
	}
	return names
}

// control enables or disables controllers for the cgroups below dir.
func control(dir, sign string, names []string) error {
	if len(names) == 0 {
		return nil
	}
	return set(dir, "cgroup.subtree_control", sign+strings.Join(names, " "+sign))
}

func set(dir, name, value string) error {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

func words(dir, name string) []string {
	text, _ := os.ReadFile(filepath.Join(dir, name)) // there is none of what is not there
	return strings.Fields(string(text))
}

// valueOf is the number after key in a file of such pairs.
func valueOf(dir, name, key string) (uint64, error) {
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(text) {
		if k, v, ok := bytes.Cut(bytes.TrimSpace(line), []byte(" ")); ok && string(k) == key {
			return strconv.ParseUint(string(v), 10, 64)
		}
	}
	return 0, fmt.Errorf("%s of %s has no %s", name, dir, key)
}

// value is valueOf, 0 if that cannot be read.
func value(dir, name, key string) uint64 {
	n, _ := valueOf(dir, name, key)
	return n
}

func pidsIn(dir string) (pids []int) {
	for _, word := range words(dir, "cgroup.procs") {
		if pid, err := strconv.Atoi(word); err == nil && pid > 0 { // 0 is one of another namespace
			pids = append(pids, pid)
		}
	}
	return pids
}

// members makes a place for the processes of a command.
func (h *home) members(l Limits) (members, error) {
	if h == nil {
		return &tree{limits: l}, nil
	}
	dir := filepath.Join(h.dir, strconv.FormatUint(h.next.Add(1), 10))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make a cgroup for a limited command: %w", err)
	}
	f, err := os.Open(dir)
	if err != nil {
		return nil, errors.Join(err, os.Remove(dir))
	}
	return &cgroup{home: h, dir: dir, file: f, limits: l}, nil
}

// A cgroup has all processes of a command in it.
type cgroup struct {
	home   *home
	dir    string
	file   *os.File // dir
	limits Limits
}

func (c *cgroup) attributes(attr *syscall.SysProcAttr) {
	attr.UseCgroupFD, attr.CgroupFD = true, int(c.file.Fd())
}

// maxPids is the largest number that pids.max takes: PID_MAX_LIMIT of linux/threads.h.
const maxPids = 4 << 20

// began sets the limits only now: what prepares the start of the program needs some
// threads and memory itself.
func (c *cgroup) began(_ int, apart *os.File) error {
	if apart != nil {
		_ = apart.Close() // of no use here
	}
	var errs []error
	if c.limits.Memory > 0 && c.home.memory {
		if err := set(c.dir, "memory.swap.max", "0"); err != nil && !errors.Is(err, os.ErrNotExist) { // no swap accounting
			errs = append(errs, err)
		}
		errs = append(errs, set(c.dir, "memory.oom.group", "1"), set(c.dir, "memory.max", strconv.FormatUint(c.limits.Memory, 10)))
	}
	if c.limits.Processes > 0 && c.home.pids {
		errs = append(errs, set(c.dir, "pids.max", strconv.FormatUint(min(c.limits.Processes, maxPids), 10)))
	}
	return errors.Join(errs...)
}

func (c *cgroup) measure() (u usage, empty bool) {
	if n, err := valueOf(c.dir, "cgroup.events", "populated"); err == nil && n == 0 || isGone(err) {
		return usage{}, true
	}
	u.cpu = time.Duration(value(c.dir, "cpu.stat", "usage_usec")) * time.Microsecond
	if c.limits.Processes > 0 && c.home.pids { // they may have been more before began
		if current := words(c.dir, "pids.current"); len(current) == 1 {
			u.processes, _ = strconv.ParseUint(current[0], 10, 64)
		}
	}
	wantMemory, wantProcesses := c.limits.Memory > 0 && !c.home.memory, c.limits.Processes > 0 && !c.home.pids
	if !wantMemory && !wantProcesses {
		return u, false
	}
	var pids []int
	c.visit(c.dir, func(dir string) {
		if wantProcesses {
			u.processes += uint64(len(words(dir, "cgroup.threads")))
		}
		if wantMemory {
			pids = append(pids, pidsIn(dir)...)
		}
	})
	if wantMemory {
		u.memory = memoryOf(pids, c.limits.Memory)
	}
	return u, false
}

// visit calls fn for dir and the cgroups that the command has made below it.
func (c *cgroup) visit(dir string, fn func(dir string)) {
	fn(dir)
	for _, below := range childGroups(dir) {
		c.visit(below, fn)
	}
}

func (c *cgroup) cause() string {
	switch {
	case c.home.memory && value(c.dir, "memory.events", "oom_kill") > 0:
		return protocol.LimitMemory
	case c.home.pids && value(c.dir, "pids.events", "max") > 0:
		return protocol.LimitProcesses
	}
	return ""
}

// kill has the kernel kill all. A process whose first thread has ended is deaf to that,
// and is killed by itself.
func (c *cgroup) kill() {
	_ = set(c.dir, "cgroup.kill", "1")
	c.visit(c.dir, func(dir string) {
		for _, pid := range pidsIn(dir) {
			fd, err := unix.PidfdOpen(pid, 0)
			if err != nil {
				continue
			}
			if slices.Contains(pidsIn(dir), pid) { // still, so that fd is of that process
				_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
			}
			_ = unix.Close(fd)
		}
	})
}

func (c *cgroup) close() error {
	return cmp.Or(c.file.Close(), removeTree(c.dir))
}

func (l *Limiter) ways() ways {
	w := ways{
		cpu: protocol.LimitByWatchdog, memory: protocol.LimitByWatchdog, processes: protocol.LimitByWatchdog,
		fileSize: protocol.LimitByRlimit, wall: protocol.LimitByWatchdog,
	}
	if l.home != nil && l.home.memory {
		w.memory = protocol.LimitByCgroup
	}
	if l.home != nil && l.home.pids {
		w.processes = protocol.LimitByCgroup
	}
	return w
}

// Says tells in a sentence how well the processes of a command are found.
func (l *Limiter) Says() string {
	if l.home == nil {
		return fmt.Sprintf("no cgroup can be made: %v. The processes of a limited command are found by descent, session and, with a sandbox, namespace; one without a sandbox can slip away", l.lack)
	}
	return "each limited command has a cgroup of its own, with all that it starts"
}

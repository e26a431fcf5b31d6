package limit

import (
	"os"
	"reflect"
	"syscall"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/protocol"
)

func ptr(n uint64) *uint64 { return &n }

func TestOf(t *testing.T) {
	for _, p := range []*protocol.ProcessLimits{nil, {}} {
		if l, err := Of(p); l != nil || err != nil {
			t.Errorf("%+v: %+v, %v", p, l, err)
		}
	}
	for _, p := range []protocol.ProcessLimits{
		{CPUMs: ptr(0)},
		{MemoryBytes: ptr(0)},
		{Processes: ptr(0)},
		{FileSizeBytes: ptr(0)},
		{WallMs: ptr(0)},
		{CPUMs: ptr(1), WallMs: ptr(0)},
	} {
		if _, err := Of(&p); err == nil {
			t.Errorf("%+v was taken", p)
		}
	}
	const most = 1<<64 - 1
	l, err := Of(&protocol.ProcessLimits{CPUMs: ptr(5), MemoryBytes: ptr(6), Processes: ptr(7), FileSizeBytes: ptr(8), WallMs: ptr(most)})
	want := Limits{CPU: 5 * time.Millisecond, Memory: 6, Processes: 7, FileSize: 8, Wall: (1<<63 - 1) / time.Millisecond * time.Millisecond}
	if err != nil || *l != want {
		t.Errorf("%+v, %v, want %+v", l, err, want)
	}
}

func TestExceeded(t *testing.T) {
	all := Limits{CPU: time.Second, Wall: time.Minute, Memory: 100, Processes: 3}
	for _, tt := range []struct {
		l    Limits
		u    usage
		want string
	}{
		{all, usage{cpu: time.Second - 1, wall: time.Minute - 1, memory: 100, processes: 3}, ""},
		{all, usage{cpu: time.Second}, protocol.LimitCPU},
		{all, usage{wall: time.Minute}, protocol.LimitWall},
		{all, usage{memory: 101}, protocol.LimitMemory},
		{all, usage{processes: 4, memory: 101}, protocol.LimitProcesses},
		{Limits{FileSize: 1}, usage{cpu: time.Hour, wall: time.Hour, memory: 1 << 40, processes: 1 << 20}, ""},
	} {
		if got := tt.l.exceeded(tt.u); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.u, got, tt.want)
		}
	}
}

// fakeMembers are processes as a test says.
type fakeMembers struct {
	looks []usage // what is found, look by look; then nothing
	held  string  // what the kernel has held them to
	kills int
}

func (*fakeMembers) attributes(*syscall.SysProcAttr) {}
func (*fakeMembers) began(int, *os.File) error       { return nil }
func (m *fakeMembers) cause() string                 { return m.held }
func (m *fakeMembers) close() error                  { m.held = ""; return nil } // as a cgroup that is removed
func (m *fakeMembers) kill()                         { m.looks, m.kills = nil, m.kills+1 }

func (m *fakeMembers) measure() (usage, bool) {
	if len(m.looks) == 0 {
		return usage{}, true
	}
	u := m.looks[0]
	m.looks = m.looks[1:]
	return u, false
}

func newFake(l Limits, m *fakeMembers) *Group {
	return (&Limiter{logger: discard}).group(l, m, discard)
}

// Watch ends with the last process and kills none that keeps to its limits.
func TestWatch(t *testing.T) {
	limits := Limits{Processes: 2, FileSize: 1, CPU: time.Second}
	for _, tt := range []struct {
		name    string
		members fakeMembers
		code    int
		sig     syscall.Signal
		want    string
		kills   int
	}{
		{"keeps to the limits", fakeMembers{looks: []usage{{processes: 1}, {processes: 2}}}, 1, 0, "", 0},
		{"goes beyond one", fakeMembers{looks: []usage{{processes: 1}, {processes: 3}, {processes: 1}}}, 0, syscall.SIGKILL, protocol.LimitProcesses, 1},
		{"was held by the kernel", fakeMembers{looks: []usage{{}, {}}, held: protocol.LimitMemory}, 0, syscall.SIGKILL, protocol.LimitMemory, 1},
		{"was ended by the kernel", fakeMembers{held: protocol.LimitMemory}, 0, syscall.SIGKILL, protocol.LimitMemory, 0},
		{"wrote too large a file", fakeMembers{}, 0, syscall.SIGXFSZ, protocol.LimitFileSize, 0},
		{"told of a program that did", fakeMembers{}, 128 + int(syscall.SIGXFSZ), 0, protocol.LimitFileSize, 0},
		{"used too much of a processor", fakeMembers{}, 0, syscall.SIGXCPU, protocol.LimitCPU, 0},
		{"ended with the number of that signal", fakeMembers{}, 128 + int(syscall.SIGXCPU), 0, "", 0},
		{"was killed by somebody", fakeMembers{}, 0, syscall.SIGKILL, "", 0},
		{"ended well, and what it left behind did not", fakeMembers{looks: []usage{{processes: 3}}}, 0, 0, "", 1},
	} {
		g := newFake(limits, &tt.members)
		g.Watch(nil)
		if got := g.Cause(tt.code, tt.sig); got != tt.want || tt.members.kills != tt.kills {
			t.Errorf("%s: %q and %d kills, want %q and %d", tt.name, got, tt.members.kills, tt.want, tt.kills)
		}
	}
}

// All is killed when the server ends.
func TestWatchStops(t *testing.T) {
	m := &fakeMembers{looks: make([]usage, 1000)}
	stop := make(chan struct{})
	close(stop)
	newFake(Limits{Memory: 1}, m).Watch(stop)
	if m.kills == 0 {
		t.Error("nothing was killed")
	}
}

// A command that grows is looked at more often, and the looks at many commands do not
// take the processor.
func TestPause(t *testing.T) {
	l := &Limiter{logger: discard}
	g := &Group{limits: Limits{Wall: time.Minute}, limiter: l}
	sleeps := usage{processes: 5, memory: 7, wall: youngTime}
	calm, grows := usage{processes: 5, memory: 7, cpu: 1, wall: youngTime}, usage{processes: 6, memory: 7, wall: youngTime}
	young := usage{processes: 5, memory: 7, wall: youngTime - 1}
	for _, tt := range []struct {
		name   string
		last   usage
		now    usage
		took   time.Duration
		groups int
		want   time.Duration
	}{
		{"has just begun", young, young, 0, 1, youngPause},
		{"has just begun, and is costly", young, young, 10 * time.Millisecond, 1, youngShare * 10 * time.Millisecond},
		{"sleeps", sleeps, sleeps, 0, 1, sleepTime},
		{"calm", sleeps, calm, 0, 1, calmTime},
		{"grows", calm, grows, 0, 1, lookTime},
		{"costly", calm, grows, time.Millisecond, 1, lookShare * time.Millisecond},
		{"very costly", calm, grows, 100 * time.Millisecond, 1, slowTime},
		{"one of many", calm, grows, 0, 100, 100 * crowdTime},
		{"near its end", calm, usage{wall: time.Minute - time.Microsecond}, 0, 1, time.Millisecond},
	} {
		l.groups = tt.groups
		if got := g.pause(tt.last, tt.now, tt.took); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestNilGroup(t *testing.T) {
	var g *Group
	if g.Report() != nil || g.Resources() != nil || g.Cause(1, 0) != "" || g.Began(1, nil) != nil {
		t.Error("a command without limits has some")
	}
}

func TestReport(t *testing.T) {
	l := New(nil)
	defer l.Close() //nolint:errcheck // nothing depends on it
	if got := l.Report(Limits{}); got != nil {
		t.Errorf("%+v", got)
	}
	got := l.Report(Limits{CPU: 1, Memory: 1, Processes: 1, FileSize: 1, Wall: 1})
	var names []string
	for _, r := range got {
		names = append(names, r.Name)
		if r.Enforced != (r.By != protocol.LimitByNone) {
			t.Errorf("%+v", r)
		}
	}
	want := []string{protocol.LimitCPU, protocol.LimitMemory, protocol.LimitProcesses, protocol.LimitFileSize, protocol.LimitWall}
	if !reflect.DeepEqual(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}

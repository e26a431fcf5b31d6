package shell

import (
	"container/list"
	"errors"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/wsd-dev/wsd/process"
)

// A run is one that is live: it has no end in the log yet.
type run struct {
	shell *Shell
	id    string
	about About
	since time.Time // its beginning

	begun    chan struct{} // closed once the log has it, or beginErr says why not
	key      int64         // of the Store; valid after begun
	beginErr error
	started  chan struct{} // closed once child is set, or startErr says why it stays nil
	child    *process.Child
	startErr error
	kept     chan struct{} // closed when its keeper has ended
	wake     chan struct{} // holds a token when there is work for the keeper

	mu      sync.Mutex
	keeping bool    // there is a keeper, or was one, or none can be
	last    uint64  // number of the newest event
	queue   []Event // read and not committed, with maybe an exit as its last
	// unread and events count what was read and neither done with by the follower nor,
	// without one, committed.
	unread, events int
	room           chan struct{} // non-nil while a pump waits
	committed      uint64        // number of the newest event that is committed
	tail           []Event       // committed, and not taken by the follower: the newest ones
	follower       *follower     // holds the command up when it does not read
	readers        list.List     // of *follower: others, that read the log; those that came first are first
	news           chan struct{} // closed when there is something for followers; nil while none waits
	lifted         bool          // the tail is not kept any more: the follower reads the log
	evicted        bool          // the log has become longer than is kept
	due            bool          // it can be cut
	ended          bool          // the exit is committed
	failure        error
	timer          *time.Timer // of the deadline

	ending  bool          // the exit is in the queue or in the log
	dropped chan struct{} // closed by drop: nothing more is wanted
}

// newRun makes a run with the follower of whoever asks for it.
func newRun(s *Shell, req *Request) *run {
	r := &run{shell: s, id: req.ID, about: req.about(), since: time.Now(), wake: make(chan struct{}, 1), keeping: true}
	for _, ch := range []*chan struct{}{&r.begun, &r.started, &r.kept, &r.dropped} {
		*ch = make(chan struct{})
	}
	r.follower = s.newFollower(req.ID)
	r.follower.run, r.follower.next = r, 1
	return r
}

// logger is the Shell's, for what is of the run. Most have nothing to say.
func (r *run) logger() *slog.Logger { return r.shell.cfg.Logger.With("exec", r.id) }

// add numbers an event and leaves it to the keeper.
func (r *run) add(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.number(e)
	r.work()
}

// number puts an event into the queue. It is called with mu held. Nothing comes after an
// exit.
func (r *run) number(e Event) {
	if r.ending {
		return
	}
	r.unread += len(e.Data)
	if r.gather(e) {
		return
	}
	r.ending = e.Name == Exit
	r.last++
	e.ID, e.Seq = r.id, r.last
	r.queue = append(r.queue, e)
	r.events++
}

// gather adds output to the last event of the queue, if that is of the same stream and both
// are short. It is called with mu held. So a command that prints little at a time has few
// events for as long as the keeper writes others.
func (r *run) gather(e Event) bool {
	if len(r.queue) == 0 {
		return false
	}
	last := &r.queue[len(r.queue)-1]
	if last.Name != e.Name || len(last.Data)+len(e.Data) > gatherBytes {
		return false
	}
	last.Data = append(last.Data, e.Data...)
	return true
}

// wait returns once more may be read, false when nothing more is wanted.
func (r *run) wait() bool {
	for {
		r.mu.Lock()
		if r.hasRoom() {
			r.mu.Unlock()
			return !r.isDropped()
		}
		if r.room == nil {
			r.room = make(chan struct{})
			r.notifyFollowers() // one that waits may take the place of one that does not read
		}
		room := r.room
		r.mu.Unlock()
		select {
		case <-room:
		case <-r.dropped:
			return false
		}
	}
}

// hasRoom is called with mu held.
func (r *run) hasRoom() bool { return r.unread < windowBytes && r.events < windowEvents }

// took is called with mu held when events have left the window.
func (r *run) took(bytes, events int) {
	r.unread -= bytes
	r.events -= events
	if r.room != nil && r.unread <= windowBytes/2 && r.events <= windowEvents/2 {
		close(r.room)
		r.room = nil
	}
}

// size counts the output of events.
func size(events []Event) (bytes int) {
	for i := range events {
		bytes += len(events[i].Data)
	}
	return bytes
}

// dropTail is called with mu held when the tail is not wanted any more.
func (r *run) dropTail() {
	r.took(size(r.tail), len(r.tail))
	r.tail = nil
	if r.due {
		r.work()
	}
}

// drop ends the run: its group is killed, and nothing of it is recorded from then on.
func (r *run) drop() {
	r.mu.Lock()
	first := !r.isDropped()
	if first {
		close(r.dropped)
	}
	r.notifyFollowers()
	r.mu.Unlock()
	if first {
		r.end()
		r.mu.Lock()
		r.work()
		r.mu.Unlock()
	}
}

func (r *run) isDropped() bool {
	select {
	case <-r.dropped:
		return true
	default:
		return false
	}
}

// end kills the group and reads no more of it.
func (r *run) end() {
	<-r.started
	if r.child == nil {
		return
	}
	r.signal(syscall.SIGKILL)
	for _, out := range r.child.Outputs {
		_ = out.Close() // only fails when it is closed
	}
}

// signal sends sig to the group, if there is any.
func (r *run) signal(sig syscall.Signal) {
	if err := r.child.Process.Signal(sig, true); err != nil && !errors.Is(err, os.ErrProcessDone) {
		r.logger().Error("process group could not be signalled", "pid", r.child.PID, "signal", int(sig), "err", err)
	}
}

// lift lets the run go on without its follower, who reads the log from then on.
func (r *run) lift() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lifted = true
	r.dropTail()
}

// notify leaves a token in a channel that holds one.
func notify(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

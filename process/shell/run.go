package shell

import (
	"container/list"
	"log/slog"
	"sync"
	"syscall"
	"time"

	"github.com/wsd-dev/wsd/process"
	"github.com/wsd-dev/wsd/process/eventlog"
)

// A run is one that is live: it has no end in the log yet.
type run struct {
	shell        *Shell
	id           string
	about        About
	client, peer string
	since        time.Time // its beginning

	begun    chan struct{} // closed once the log has it, or beginErr says why not
	key      int64         // of the log; set before begun is closed
	beginErr error
	started  chan struct{} // closed once command is set, or startErr says why it stays nil
	command  *process.Supervisor
	startErr error
	kept     chan struct{} // closed when nothing of it is recorded any more

	mu    sync.Mutex
	last  uint64           // number of the newest event
	queue []eventlog.Event // read and not committed, with maybe an exit as its last
	taken int              // how many events at the beginning of queue are being committed
	batch *eventlog.Change // is being committed; nil for none
	log   extent           // of what is committed, or about to be
	full  bool             // there was no room for batch
	over  bool             // kept is closed
	// unread and events count what was read and neither done with by the follower nor,
	// without one, committed.
	unread, events int
	room           chan struct{}    // non-nil while a pump waits
	committed      uint64           // number of the newest event that is committed
	tail           []eventlog.Event // committed, and not taken by the follower: the newest ones
	follower       *follower        // holds the command up when it does not read
	readers        list.List        // of *follower: others, that read the log; those that came first are first
	news           chan struct{}    // closed when there is something for followers; nil while none waits
	lifted         bool             // the tail is not kept any more: the follower reads the log
	evicted        bool             // the log has become longer than is kept
	due            bool             // it can be cut
	ended          bool             // the exit is committed
	failure        error

	ending  bool          // the exit is in the queue or in the log
	dropped chan struct{} // closed by drop: nothing more is wanted
}

// newRun makes a run with the follower of whoever asks for it.
func newRun(s *Shell, req *Request) *run {
	r := &run{shell: s, id: req.ID, about: req.about(), client: req.Client, peer: req.Peer, since: time.Now(), log: extent{most: s.cfg.MaxLogBytes}}
	for _, ch := range []*chan struct{}{&r.begun, &r.started, &r.kept, &r.dropped} {
		*ch = make(chan struct{})
	}
	r.follower = s.newFollower(req.ID)
	r.follower.run, r.follower.next = r, 1
	return r
}

// logger is the Shell's, for what is of the run. Most have nothing to say.
func (r *run) logger() *slog.Logger { return r.shell.cfg.Logger.With("exec", r.id) }

// add numbers events and has them recorded.
func (r *run) add(events ...eventlog.Event) {
	r.mu.Lock()
	for i := range events {
		r.number(events[i])
	}
	r.mu.Unlock()
	r.mark()
}

// output adds a chunk of output.
func (r *run) output(chunk process.Chunk) error {
	r.add(eventlog.Event{Kind: eventlog.KindOutput, Stream: chunk.Stream, Data: chunk.Data})
	return nil
}

// exited returns the last event.
func exited(code int) eventlog.Event {
	return eventlog.Event{Kind: eventlog.KindExited, Exit: &eventlog.Exit{Code: code}}
}

// number puts an event into the queue. It is called with mu held. Nothing comes after an
// exit.
func (r *run) number(e eventlog.Event) {
	if r.ending {
		return
	}
	r.unread += len(e.Data)
	if r.gather(e) {
		return
	}
	r.ending = e.Kind == eventlog.KindExited
	r.last++
	e.Seq = r.last
	r.queue = append(r.queue, e)
	r.events++
}

// gather adds output to the last event of the queue, if that is of the same stream and both
// are short. It is called with mu held. So a command that prints little at a time has few
// events for as long as others are written.
func (r *run) gather(e eventlog.Event) bool {
	if len(r.queue) == r.taken {
		return false
	}
	last := &r.queue[len(r.queue)-1]
	if last.Kind != e.Kind || last.Stream != e.Stream || len(last.Data)+len(e.Data) > gatherBytes {
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

// dropTail is called with mu held when the tail is not wanted any more.
func (r *run) dropTail() {
	r.took(eventlog.Size(r.tail), len(r.tail))
	r.tail = nil
	if r.due {
		r.mark()
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
		if !r.mark() {
			r.mu.Lock()
			r.finish()
			r.mu.Unlock()
		}
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
	if r.command != nil {
		r.command.Kill()
	}
}

// signal sends sig to the group, if there is any.
func (r *run) signal(sig syscall.Signal) {
	if r.command != nil {
		r.command.SignalGroup(sig)
	}
}

// lift lets the run go on without its follower, who reads the log from then on.
func (r *run) lift() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lifted = true
	r.dropTail()
}

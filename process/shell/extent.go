package shell

import "github.com/wsd-dev/wsd/process/eventlog"

// An extent counts what the log of a live run has, in parts, and says which of the oldest
// are not kept.
type extent struct {
	most    int64 // bytes to keep
	parts   []part
	bytes   int64
	events  int
	printed int64 // bytes of all that was ever added
}

// A part is a piece of a log.
type part struct {
	first  uint64 // number of its first event
	bytes  int64
	events int
}

// add counts events that are appended.
func (x *extent) add(events []eventlog.Event) {
	for i := range events {
		n := len(x.parts)
		if n == 0 || x.parts[n-1].bytes >= x.most/logParts || x.parts[n-1].events >= maxLogEvents/logParts {
			x.parts = append(x.parts, part{first: events[i].Seq})
			n++
		}
		size := int64(len(events[i].Data))
		x.parts[n-1].bytes += size
		x.parts[n-1].events++
		x.bytes, x.events, x.printed = x.bytes+size, x.events+1, x.printed+size
	}
}

// over reports whether the log has more than is to be kept.
func (x *extent) over() bool { return x.bytes > x.most || x.events > maxLogEvents }

// due reports whether trim has something to remove.
func (x *extent) due() bool {
	return len(x.parts) > 1 && (x.bytes-x.parts[0].bytes >= x.most || x.events-x.parts[0].events >= maxLogEvents)
}

// trim takes out the parts that are not kept. It returns the number of the first event that
// is, or 0 if nothing goes.
func (x *extent) trim() (first uint64) {
	for x.due() {
		x.bytes -= x.parts[0].bytes
		x.events -= x.parts[0].events
		x.parts = x.parts[1:]
		first = x.parts[0].first
	}
	return first
}

package main

import (
	"bytes"

	"github.com/wsd-dev/wsd/client"
)

// A lineTail keeps the last lines of events of output, of both streams together.
type lineTail struct {
	most   int // lines
	lines  int // ends of lines in events
	events []client.RunEvent
}

func ends(e *client.RunEvent) int { return bytes.Count(e.Data, []byte{'\n'}) }

// add takes the next event.
func (t *lineTail) add(e *client.RunEvent) {
	kept := *e
	kept.Data = bytes.Clone(e.Data)
	t.events = append(t.events, kept)
	t.lines += ends(e)
	// Of the line before the last ones its end must be there, and the last may have one.
	for len(t.events) > 1 && t.lines-ends(&t.events[0]) > t.most {
		t.lines -= ends(&t.events[0])
		t.events = t.events[1:]
	}
}

// last returns the last lines. The first event of them begins with a line.
func (t *lineTail) last() []client.RunEvent {
	if t.most == 0 {
		return nil
	}
	left := t.most
	for i := len(t.events) - 1; i >= 0; i-- {
		data := t.events[i].Data
		end := len(data)
		if i == len(t.events)-1 && bytes.HasSuffix(data, []byte{'\n'}) {
			end-- // the last line's own
		}
		for at := bytes.LastIndexByte(data[:end], '\n'); at >= 0; at = bytes.LastIndexByte(data[:at], '\n') {
			if left--; left <= 0 {
				first := t.events[i]
				first.Data = data[at+1:]
				if len(first.Data) == 0 {
					return t.events[i+1:]
				}
				return append([]client.RunEvent{first}, t.events[i+1:]...)
			}
		}
	}
	return t.events
}
